"""The charts and tables of a report, as data that JSON can hold and `pictures/report_page.py` draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.tasks.metrics.calibration import calibration_bins, calibration_error

MOST_POINTS = 2_000


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Rows of names and numbers. The first cell of a row is its name."""
    return {"kind": "table", "title": title, "note": "", "header": [*header], "rows": [[*row] for row in rows]}


def matrix(title: str, names: Sequence[str], counts: np.ndarray, note: str) -> dict[str, Any]:
    """How often each name [C] was answered where each was right: counts [C, C]."""
    both = {"true": [*names], "answered": [*names]}
    return {"kind": "matrix", "title": title, "note": note, **both, "counts": counts.tolist()}


def confusion(true: np.ndarray, answered: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """The confusion matrix of label ids, both [n].

    >>> confusion(np.array([0, 1, 1]), np.array([0, 1, 0]), ["no", "yes"])["counts"]
    [[1, 0], [1, 1]]
    """
    size = len(labels)
    counts = np.bincount(true * size + answered, minlength=size * size).reshape(size, size)
    note = ""
    if len(present := np.unique(true)) == 1:
        note = f"All rows have the label {labels[present[0]]!r}, so mistakes on other labels cannot be seen here."
    return matrix("Confusion matrix", labels, counts, note)


def calibration(right: Any, confidence: Any, of: str = "answers") -> dict[str, Any]:
    """How often answers of each confidence are right; both columns [n]."""
    return {
        "kind": "calibration",
        "title": "Calibration",
        "note": f"For {of} of each probability, the share that is right. On the diagonal, it equals the probability.",
        "error": calibration_error(right, confidence),
        "bins": calibration_bins(right, confidence),
    }


def points(title: str, names: tuple[str, str], x: Any, y: Any) -> dict[str, Any]:
    """A point for each row, or for some rows that are spread evenly over the file."""
    chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(int))
    note = "" if len(chosen) == len(x) else f"{len(chosen):,} of {len(x):,} rows."
    columns = {"x": np.asarray(x, float)[chosen].tolist(), "y": np.asarray(y, float)[chosen].tolist()}
    return {"kind": "points", "title": title, "note": note, "names": [*names], **columns}
