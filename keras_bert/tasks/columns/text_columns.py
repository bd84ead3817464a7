"""Columns of texts and of targets as users pass them, as plain lists. Errors name the row."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.text.texts import has_names, rank_of, refuse_row, utf8


def column(values: Any, what: str = "text") -> list[str]:
    """A column of texts as a list: from a list, an array, a pandas or datasets column, or a string tensor.

    >>> import numpy as np
    >>> column(np.array(["one", "two"]))
    ['one', 'two']
    """
    rows = rows_of(values, what)
    for row, text in enumerate(rows):
        if is_missing(text):
            raise ValueError(f"The {what} at index {row} is missing. Fill it in, or drop its row. Received: {text!r}")
        if isinstance(text, bytes):
            rows[row] = _decoded(text, f"{what} at index {row}")
        elif isinstance(text, str):
            utf8(text, f" at index {row}")
        else:
            raise TypeError(
                f"The {what} at index {row} is not a string. For pairs, pass a tuple of two columns; convert any other "
                f"value with str(). Received: {text!r}"
            )
    return rows


def _decoded(text: bytes, where: str) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"The {where} is bytes that are not UTF-8. Decode it first, such as with text.decode('cp949'). Received: "
            f"{error.object[error.start : error.end]!r} at byte {error.start}"
        ) from None


def as_batch(texts: Any) -> tuple[Any, bool]:
    """Columns, and whether a single text or pair was given instead of columns."""
    if texts is None:
        raise TypeError("The text is missing. Pass a text, a tuple of two texts, or columns of texts. Received: None")
    if isinstance(texts, str | bytes):
        return [texts], True
    if isinstance(texts, dict) and isinstance(texts.get("text"), str):  # a row of a table
        return [texts], True
    if isinstance(texts, tuple) and texts and isinstance(texts[0], str):
        return tuple([text] for text in texts), True
    return texts, False


def two_columns(x: Any, first: str, second: str) -> tuple[Any, Any]:
    """The columns of a task that reads two of them."""
    if not isinstance(x, tuple) or len(x) != 2:
        raise TypeError(
            f"x must be a tuple of two columns. Pass the {first} and the {second}. Received: {type(x).__name__}"
        )
    return x


def rows_of(values: Any, what: str) -> list[Any]:
    """The rows of a column of any type."""
    if hasattr(values, "row_splits"):  # a RaggedTensor of TensorFlow
        values = values.to_list()
    rank = rank_of(values)
    if isinstance(values, str | bytes | Mapping | set | frozenset) or not isinstance(values, Iterable) or rank == 0:
        raise TypeError(
            f"Each {what} must be an element of a list, an array or a column of a table. Put a single {what} in a "
            f"list. Received: {values if values is None or isinstance(values, int | float) else type(values).__name__}"
        )
    if rank == 2 and has_names(values):  # a DataFrame gives its columns' names
        raise TypeError(
            f"A whole table was passed in place of one column. Pass the column with each {what}, as in table[name]. "
            f"Received: {type(values).__name__}"
        )
    refuse_row(values)
    if hasattr(values, "to_pylist"):  # a column of pyarrow
        return values.to_pylist()
    values = values.numpy() if hasattr(values, "numpy") else values
    return list(values.tolist() if hasattr(values, "tolist") else values)


def flat(values: Any) -> Any:
    """An array or a list of numbers [n, 1], as Keras takes targets too, as [n]; other values as they are."""
    if isinstance(values, list) and all(isinstance(row, list) and len(row) == 1 for row in values):
        return [row[0] for row in values] if all(isinstance(row[0], int | float) for row in values) else values
    shape: Any = getattr(values, "shape", ())
    return values[:, 0] if len(shape) == 2 and shape[1] == 1 and not has_names(values) else values


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas's NA or NaT."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def check_lengths(**columns: Any) -> None:
    """Refuse columns, of those that are not None, with different numbers of rows."""
    lengths = {name: len(rows) for name, rows in columns.items() if rows is not None}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"`{name}` of length {length}" for name, length in lengths.items())
        raise ValueError(f"The columns differ in length. Pass a value for each row in each column. Received: {listed}")


def check_scored(true: Any, predicted: Any) -> None:
    """Refuse predictions that are not one for each example."""
    if len(true) != len(predicted) or not len(true):
        raise ValueError(
            "The predictions and the examples differ in number, or there are none. Pass one prediction for each "
            f"example. Received: {len(predicted)} predictions for {len(true)} examples"
        )


def split_columns(columns: Sequence[Any], fraction: float) -> tuple[list[Any], list[Any]]:
    """The rows to learn from, and the last `fraction` of the rows, as with Keras's validation_split."""
    if not 0 < fraction < 1:
        raise ValueError(f"validation_split must be more than 0 and less than 1. Received: validation_split={fraction}")
    first = columns[0][0] if isinstance(columns[0], tuple) else columns[0]
    count = len(rows_of(first, "example"))
    kept = math.floor(count * (1 - fraction))
    if not 0 < kept < count:
        raise ValueError(
            "validation_split leaves no rows for training or no rows for validation. Use another fraction. "
            f"Received: validation_split={fraction} of {count} rows"
        )
    return part_of(columns, slice(kept)), part_of(columns, slice(kept, None))


def part_of(columns: Sequence[Any], part: slice) -> list[Any]:
    """Some rows of each column."""
    return [
        tuple(part_of(column, part)) if isinstance(column, tuple) else column if column is None else _part(column, part)
        for column in columns
    ]


def _part(column: Any, part: slice) -> Any:
    if getattr(column, "ndim", 1) == 2:  # a matrix of labels stays one
        return np.asarray(column)[part]
    return rows_of(column, "example")[part]
