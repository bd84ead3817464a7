"""Calibration: how far probabilities are from frequencies, and the temperature and thresholds that fit best."""

import logging
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from keras_bert.wording import listed, plural

logger = logging.getLogger("keras_bert")

BINS = 15  # as in Guo et al. 2017
LEAST = 20  # rows, below which a temperature is not fitted
LEAST_OF_LABEL = 5  # rows with a label, and rows without it, below which it gets no threshold of its own
MOST = 20.0  # the temperature is between this and its inverse


def calibration_error(right: Any, confidence: Any) -> float:
    """The expected calibration error: the mean over bins of equal width of |accuracy - confidence|, weighted by rows.

    right: whether each answer is right. confidence: its probability. (Guo et al. 2017, "On Calibration of Modern Neural
    Networks".)

    >>> calibration_error([True, False, True, True], [0.75, 0.75, 0.75, 0.75])
    0.0
    """
    confidence = np.asarray(confidence, "float64")
    gaps = np.bincount(_bin(confidence), np.asarray(right, "float64") - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(confidence))  # gaps are times the rows of their bin


def calibration_bins(right: Any, confidence: Any) -> list[dict[str, float]]:
    """The bins of `calibration_error` that have rows: their mean confidence, their accuracy and their rows.

    >>> calibration_bins([True, False, True, True], [0.75, 0.75, 0.75, 0.75])
    [{'confidence': 0.75, 'accuracy': 0.75, 'rows': 4}]
    """
    confidence = np.asarray(confidence, "float64")
    number = _bin(confidence)
    rows, sure, hits = (np.bincount(number, values) for values in (np.ones(len(number)), confidence, right))
    return [
        {"confidence": float(sure[bin] / rows[bin]), "accuracy": float(hits[bin] / rows[bin]), "rows": int(rows[bin])}
        for bin in np.flatnonzero(rows)
    ]


def _bin(confidence: np.ndarray) -> np.ndarray:
    """The bin of each probability, which includes its upper edge."""
    return np.clip(np.ceil(np.nan_to_num(confidence) * BINS).astype(int) - 1, 0, BINS - 1)


def best_temperature(logits: Any, labels: Any) -> float | None:
    """The temperature by which to divide logits [n, C], so that the labels [n] have the lowest mean loss.

    None if it cannot be known: there are few rows, or each is answered right, where any lower temperature is better.

    >>> logits = [[2.0, 0.0]] * 30
    >>> round(best_temperature(logits, [0] * 20 + [1] * 10), 3)  # for probabilities of 2/3 and 1/3
    2.885
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    logits, labels = np.asarray(logits, "float64"), np.asarray(labels, "int64")
    if len(labels) < LEAST or (logits.argmax(1) == labels).all():
        return None

    def loss(log_temperature: float) -> float:
        chances = log_softmax(logits / np.exp(log_temperature), axis=1)
        return -float(np.mean(chances[np.arange(len(labels)), labels]))

    bounds = (-np.log(MOST), np.log(MOST))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


def temperature_by(logits: Any, labels: Any, before: float) -> float:
    """The best temperature, or the one before with a warning if it cannot be known."""
    found = best_temperature(logits, labels)
    if found is None:
        rows = plural("row", len(labels))
        why = f"at least {LEAST} rows are needed" if len(labels) < LEAST else "all of them are answered right"
        logger.warning("The temperature stays %g with %d %s: %s.", before, len(labels), rows, why)
    elif not 1.01 / MOST < found < MOST / 1.01:
        logger.warning(
            "The best temperature for these %d rows is outside %g to %g, so it is set to %.4g. Check the labels and "
            "the number of rows.",
            len(labels), 1 / MOST, MOST, found,
        )  # fmt: skip
    return found or before


def best_thresholds(scores: Any, true: Any) -> list[float | None]:
    """For each label the threshold with the highest F1, from scores and 0 or 1, both [n, C]; None with few rows.

    It is halfway between the lowest score that counts and the next one. Of equally good thresholds, the highest.

    >>> best_thresholds([[0.9], [0.5], [0.4], [0.2], [0.1]] * 5, [[1], [1], [0], [0], [0]] * 5)
    [0.45]
    """
    columns = zip(np.asarray(scores, "float64").T, np.asarray(true, "float64").T, strict=True)
    return [_best_threshold(of_label, known) for of_label, known in columns]


def _best_threshold(scores: np.ndarray, true: np.ndarray) -> float | None:
    if min(true.sum(), len(true) - true.sum()) < LEAST_OF_LABEL:
        return None
    order = np.argsort(-scores, kind="stable")
    scores, hits = scores[order], np.cumsum(true[order])
    f1 = 2 * hits / (np.arange(1, len(scores) + 1) + hits[-1])  # if so many of the highest scores count
    f1[:-1][scores[:-1] == scores[1:]] = -1  # equal scores count together
    last = int(f1.argmax())
    return float((scores[last] + (scores[last + 1] if last + 1 < len(scores) else 0.0)) / 2)


def thresholds_by(scores: Any, true: Any, before: dict[str, float]) -> dict[str, float]:
    """The best threshold of each label, or the one before with a warning if there are too few rows."""
    found = dict(zip(before, best_thresholds(scores, true), strict=True))
    if few := [label for label, threshold in found.items() if threshold is None]:
        logger.warning("Labels keep their thresholds if too few rows have or lack them: %s.", listed(few, 8))
    return {label: before[label] if threshold is None else threshold for label, threshold in found.items()}


def check_calibration(
    labels: Sequence[str],
    multi_label: bool,
    temperature: float,
    thresholds: Sequence[float] | None,
    abstain_below: float,
) -> None:
    """Refuse values that a classifier of these labels cannot have."""
    if not all(isinstance(value, Real) for value in (temperature, *(thresholds or ()), abstain_below)):
        rule = "`temperature`, `thresholds` and `abstain_below` must be numbers"
    elif thresholds is not None and not (multi_label and len(thresholds) == len(labels)):
        rule = f"`thresholds` needs multi_label=True and one number for each of the {len(labels)} labels"
    elif abstain_below and multi_label:
        rule = "`abstain_below` works only without multi_label, where each text has one label. Leave it out"
    elif not 0 < temperature < float("inf"):  # refuses NaN too
        rule = "`temperature` must be above 0 and finite. Use 1 to leave the probabilities as they are"
    elif not all(0 <= value <= 1 for value in thresholds or ()):
        rule = "`thresholds` must be between 0 and 1. Use 0.5 for a label without a threshold of its own"
    elif not 0 <= abstain_below <= 1:
        rule = "`abstain_below` must be a probability, from 0 to 1. Use 0 to answer every text"
    else:
        return
    values = {"temperature": temperature, "thresholds": thresholds, "abstain_below": abstain_below}
    raise ValueError(f"{rule}. Received: {values}")
