"""split_rows: training rows into rows to learn from and rows to validate on."""

import logging
from typing import Any

import numpy as np

from keras_bert.tasks.file_task import FileTask
from keras_bert.tasks.readers import Rows

logger = logging.getLogger("keras_bert")


def split_rows(task: type[FileTask], rows: Rows, share: float) -> tuple[Rows, Rows]:
    """Hold out a share of the rows, in which each label (or score) has nearly the same share.

    The same file and share give the same rows, with any seed of the run, so that runs can be compared. Of each label at
    least one row is left to learn from.
    """
    # Of shuffled rows that are then sorted by y, every (1 / share)-th row is held out.
    order = sorted(
        np.random.default_rng(0).permutation(len(rows)).tolist(),
        key=lambda row: _stratum(rows.y[row] if rows.y else None),
    )
    steps = np.floor(np.arange(len(rows) + 1) * share + 0.5)
    held_out = {row for row, step in zip(order, np.diff(steps), strict=True) if step}
    labels = list(task.labels_of(rows))
    learned = {label for row, label in labels if row not in held_out}
    for row, label in labels:
        if label not in learned:
            held_out.discard(row)
        if row not in held_out:
            learned.add(label)
    parts = [rows.take([row for row in range(len(rows)) if (row in held_out) is held]) for held in (False, True)]
    if not all(map(len, parts)):
        missing = "validate on" if parts[0] else "learn from"
        raise ValueError(
            f"split={share:g} leaves no row of {rows.path} to {missing}. Use another share, or name a validation file. "
            f"Received: split={share:g} of {len(rows)} rows"
        )
    logger.info("Of the %d rows of %s, %d are held out to find the best epoch.", len(rows), rows.path, len(parts[1]))
    return parts[0], parts[1]


def _stratum(y: Any) -> Any:
    """What rows are sorted by: their label, score or labels. Answers of questions have no order."""
    if isinstance(y, list):
        return tuple(y)
    return y if isinstance(y, str | int | float) else 0
