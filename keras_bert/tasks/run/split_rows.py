"""split_rows: training rows into rows to learn from and rows to validate on."""

import logging
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from keras_bert.tasks.readers.row_stream import RowStream
from keras_bert.tasks.readers.rows import Rows
from keras_bert.wording import plural

logger = logging.getLogger("keras_bert")


def split_rows(
    rows: Rows | RowStream, share: float, labels: Iterable[tuple[int, str]] = ()
) -> tuple[Rows | RowStream, Rows]:
    """Hold out a share of the rows, in which each label (or score) has nearly the same share.

    The same file and share give the same rows, with any seed of the run, so that runs can be compared. Of each label at
    least one row is left to learn from. Rows that are held out of a stream are read into memory.

    labels: each label with the number of its row in `rows.sample`.
    """
    # Of shuffled rows that are then sorted by y, every (1 / share)-th row is held out.
    order = np.random.default_rng(0).permutation(len(rows))
    order = order[np.argsort(_strata(rows)[order], kind="stable")]
    held_out = np.zeros(len(rows), bool)
    held_out[order[np.diff(np.floor(np.arange(len(rows) + 1) * share + 0.5)) > 0]] = True
    chosen = held_out.any()
    _keep_labels(rows, held_out, labels)
    learned, held = rows.take(np.flatnonzero(~held_out)), rows.take(np.flatnonzero(held_out))
    if not (len(learned) and len(held)):
        missing = "validate on" if len(learned) else "learn from"
        once = chosen and not held_out.any()
        why = ", since each label has only one row" if once else ""
        remedy = "Add rows" if once else "Use another share"
        raise ValueError(
            f"split={share:g} leaves no row of {rows.path} to {missing}{why}. {remedy}, or name a validation file. "
            f"Received: split={share:g} of {len(rows)} {plural('row', len(rows))}"
        )
    logger.info("Held out to find the best epoch: %d of the %d rows of %s.", len(held), len(rows), rows.path)
    return learned, held.read(np.arange(len(held))) if isinstance(held, RowStream) else held


def _keep_labels(rows: Rows | RowStream, held_out: np.ndarray, labels: Iterable[tuple[int, str]]) -> None:
    """Do not hold out the first row of a label that no other row would teach."""
    codes = np.asarray(rows.codes)
    by_row: list[list[str]] = [[] for _ in range(len(rows.sample))]
    for row, label in labels:
        by_row[row].append(label)
    learned = {label for code in np.unique(codes[~held_out]) for label in by_row[code]}
    teaches = np.array([not learned.issuperset(of_row) for of_row in by_row], bool)
    for number in np.flatnonzero(teaches[codes]):
        of_row = by_row[codes[number]]
        held_out[number] &= learned.issuperset(of_row)
        if not held_out[number]:
            learned.update(of_row)


def _strata(rows: Rows | RowStream) -> np.ndarray:
    """For each row a number, in the order of the targets."""
    if rows.numbers is not None:
        return rows.numbers
    keys = list(map(_stratum, rows.sample.y)) or [0] * len(rows)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ranks = np.zeros(len(keys), int)
    ranks[order[1:]] = list(accumulate(keys[one] != keys[other] for one, other in pairwise(order)))
    return ranks[rows.codes]


def _stratum(y: Any) -> Any:
    """What rows are sorted by: their label, score or labels. Answers of questions have no order."""
    if isinstance(y, list):
        return tuple(y)
    return y if isinstance(y, str | int | float) else 0
