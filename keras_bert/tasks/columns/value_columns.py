"""The columns of numbers, weights and categories that users pass, in one type. Errors name the row."""

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_bert.tasks.columns.text_columns import check_lengths, flat, is_missing, rows_of

logger = logging.getLogger("keras_bert")

LARGEST = float(np.finfo("float32").max)
DEVIATIONS = (1e-6, 1e18)  # standard deviations by which Keras's Normalization can divide in float32


def number_column(values: Any, what: str) -> np.ndarray:
    """A column of finite numbers, float32 [n]."""
    rows = rows_of(flat(values), what)
    for row, value in enumerate(rows):
        if isinstance(value, str | bytes):
            raise ValueError(f"The {what} at row {row} is a string. Convert it with float(). Received: {value!r}")
        if np.ndim(value):
            raise ValueError(
                f"The {what} at row {row} has {np.size(value)} values. Pass one number for each row. Received: "
                f"{value!r}"
            )
        if not abs(_as_float(value)) <= LARGEST:
            raise ValueError(
                f"The {what} at row {row} is not a finite float32 number. Correct it, or drop the row. Received: "
                f"{value!r}"
            )
    return np.array(rows, "float32")


def _as_float(value: Any) -> float:
    """NaN for what is no number, such as a date."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def mean_and_deviation(name: str, values: Any, place: str) -> tuple[float, float]:
    """Those of a column of numbers that a task reads beside the text. name, place: what errors call it and its file."""
    found = number_column(values, f"number in column {name!r}").astype("float64")  # as exact as the model reads them
    deviation = float(found.std()) if found.min() < found.max() else 0.0
    if not deviation:
        raise ValueError(
            f"All rows of {place} have the same number in column {name!r}, so nothing can be learned from it. Leave "
            f"the column out. Received: {found[0]:g}"
        )
    if not DEVIATIONS[0] <= deviation <= DEVIATIONS[1]:
        raise ValueError(
            f"The numbers in column {name!r} of {place} are too small or too large for float32. Use another unit. "
            f"Received: a standard deviation of {deviation:g}"
        )
    return float(found.mean()), deviation


def category_of(value: Any) -> str | None:
    """A category as a name, "" if it is missing; None for a value that is neither a name nor a whole number.

    >>> category_of("red"), category_of(7), category_of(7.0), category_of(np.int64(7)), category_of(None)
    ('red', '7', '7', '7', '')
    >>> category_of(0.5)
    """
    if is_missing(value):
        return ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():  # as pandas has a column with gaps
        value = int(value)
    return str(value).strip() if isinstance(value, str | int | np.integer) else None


def category_column(values: Any, what: str) -> list[str]:
    """A column of categories as names."""
    rows = rows_of(values, what)
    found = [category_of(value) for value in rows]
    if None in found:
        row = found.index(None)
        raise TypeError(
            f"The {what} at row {row} is neither a name nor a whole number. Convert it with str(). Received: "
            f"{rows[row]!r}"
        )
    return [category or "" for category in found]


def weight_column(sample_weight: Any, count: int) -> np.ndarray:
    """The weight of each example, float32 [n]; 1 if none is given."""
    if sample_weight is None:
        return np.ones(count, "float32")
    found = number_column(sample_weight, "sample weight")
    if (found < 0).any():
        row = int(found.argmin())
        raise ValueError(
            f"The sample weight at row {row} is below 0. To leave an example out, give it 0. Received: {found[row]}"
        )
    check_lengths(examples=range(count), weights=found)
    return found


def check_not_nan(outputs: Iterable[np.ndarray]) -> None:
    """Refuse outputs with NaN."""
    if any(np.isnan(values).any() for values in outputs):
        raise ValueError(
            "The outputs of the model are NaN, so its weights are damaged. Training that diverges leaves such weights: "
            "load the model again, and train it with a lower learning rate. Received: NaN"
        )


def warn_of_one_score(scores: np.ndarray) -> None:
    """Say that nothing but one number can be learned from scores that are all the same."""
    if len(scores) > 1 and np.ptp(scores) == 0:
        logger.warning(
            "All training rows have the score %g, so only this number is learned. Where all scores are the same, the "
            "correlations are undefined, and are shown as 0.", scores.flat[0]
        )  # fmt: skip


def check_cosine_run(settings: Any, train: Any, valid: Any = None) -> None:
    """Refuse rows with scores that are not from -1 to 1, if the settings of a run ask for cosines."""
    for rows in (train, valid) if settings.cosine else ():
        if rows is not None:
            check_cosines(number_column(rows.y, "number"), rows.place)


def check_cosines(scores: np.ndarray, place: Callable[[int], str] = "row {}".format, other: str = "") -> None:
    """Refuse scores [n] that no cosine can be. place: what the error calls a row. other: what else it advises."""
    if np.abs(scores).max(initial=0) > 1:
        row = int(np.abs(scores).argmax())
        raise ValueError(
            f"The score at {place(row)} is not between -1 and 1, the range of cosines. Scale the scores, as in y / 5 "
            f"(--scale 5) for scores from 0 to 5{other}. Received: {scores[row]}"
        )
