"""SharedRows: several short texts in one row (sequence packing), where shapes are static and padding costs time.

A batch stays [B, S]: B texts, each with padding up to S positions. The model computes R rows of L positions instead, in
which texts follow one another, and each attends only to itself (Krell et al. 2021, "Efficient Sequence Packing without
Cross-contamination"). This file decides where each text goes; `kernels.py` does the rest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

SHARED_ROWS = "shared_rows"  # of the model's further input [R, L]
ATTENTION = 500  # the length of a row whose attention takes as long as everything else (training MiniLM on a CPU)
FULL = 0.977  # the wanted share of real tokens; longer rows have less padding, but their attention takes longer
MANY = 256  # texts from which predictions share rows; for fewer, compiling further shapes takes longer than padding
SAMPLE, FEW = 500, 60  # batches that decide the widths of rows and their number
TEXTS = 2000  # in the FEW, since the time grows faster than a batch
WORTH = 1.2  # how many times as many positions there must be with padding


def shares_rows() -> bool:
    """Whether texts can share rows. TensorFlow removes padding, and several devices split a batch by its texts."""
    return keras.backend.backend() != "tensorflow" and keras.distribution.distribution() is None


@dataclass(frozen=True)
class SharedRows:
    """The shapes [R, L] of the rows that batches of texts of similar lengths share.

    Args:
        texts: how many texts have `rows` rows. A batch of fewer texts has fewer rows.
        rows: R.
        widths: the values of L. A batch has the first into which it fits, or else a multiple of the last.

    >>> shared = SharedRows(texts=3, rows=2, widths=(5,))
    >>> shared.sources([2, 4, 3], width=4).tolist()
    [[4, 5, 6, 7, 12], [0, 1, 8, 9, 10]]
    """

    texts: int
    rows: int
    widths: tuple[int, ...]

    @classmethod
    def of(cls, batches: Sequence[Any]) -> "SharedRows":
        """For the batches of an epoch, whose texts have these lengths, and for further epochs like it."""
        batches = batches[-SAMPLE:]
        shared = _cheapest(batches[: max(2, min(FEW, TEXTS // len(batches[0])))], 2)
        fullest = [shared.shape(lengths)[1] for lengths in batches]
        return replace(shared, widths=tuple(sorted({_most(fullest), max(fullest) + 2})))

    @classmethod
    def roughly(cls, lengths: Any) -> "SharedRows":
        """For one batch, rounded to one of few shapes, since other calls have other texts."""
        return _cheapest([lengths], 16, [1 << power for power in range(len(lengths).bit_length())])

    def positions(self, lengths: Any) -> int:
        """How many positions the model computes for such a batch."""
        return math.prod(self.shape(lengths))

    def shape(self, lengths: Any) -> tuple[int, int]:
        """R and L of a batch whose texts have these lengths."""
        return self._placed(lengths)[0]

    def sources(self, lengths: Any, width: int) -> np.ndarray:
        """For each position of the rows, the one of the flat batch [B * S], or B * S if it is empty: int32 [R, L].

        width: S.
        """
        shape, places = self._placed(lengths)
        found = np.full(shape, len(lengths) * width, "int32")  # [R, L]
        for text, (row, start) in enumerate(places):
            found[row, start : start + lengths[text]] = text * width + np.arange(lengths[text])
        return found

    def _placed(self, lengths: Any) -> tuple[tuple[int, int], list[tuple[int, int]]]:
        """R and L, and the row and the start of each text."""
        rows = -(-len(lengths) * self.rows // self.texts)
        places, fullest = _places(lengths, rows)
        last = self.widths[-1]
        width = next((width for width in self.widths if width >= fullest), -(-fullest // last) * last)
        return (rows, width), places


def alike(order: np.ndarray, lengths: np.ndarray, batch_size: int, noise: Any = None) -> list[np.ndarray]:
    """The batches of examples in this order, each with short and long examples alike; the last one may be smaller.

    The examples are sorted by length and split into as many parts as a batch has examples; each batch gets one of each
    part. Every second part is dealt at random by `noise`, a number for each example, and the parts between so that the
    batches become equal: the longest example to the batch with the fewest tokens.

    >>> [batch.tolist() for batch in alike(np.arange(5), np.array([9, 1, 8, 2, 3]), batch_size=2)]
    [[2, 1], [4, 3], [0]]
    """
    order = order[np.argsort(-lengths[order], kind="stable")]
    noise = np.zeros(len(order)) if noise is None else noise
    count = len(order) % batch_size  # of the last batch, whose examples are spread evenly
    stride = len(order) // max(1, count)
    last = stride * np.arange(count) + (stride * noise[:count]).astype(int)
    rest, parts = order[last], np.delete(order, last).reshape(batch_size, -1)
    noise = noise[: parts.size].reshape(parts.shape)
    batches, tokens = np.empty_like(parts.T), np.zeros(parts.shape[1], "int64")
    for number, part in enumerate(parts):
        batches[np.argsort(tokens if number % 2 else noise[number], kind="stable"), number] = part
        tokens += lengths[batches[:, number]]
    return [*batches, rest] if len(rest) else [*batches]


def _cheapest(batches: Sequence[Any], step: int, rows: Sequence[int] = ()) -> SharedRows:
    """The shape that computes least, among those whose rows are full enough (`FULL`), or among all if no row is.

    step: widths are multiples of it. rows: the numbers of rows to try; by default, all.
    """
    texts, real = len(batches[0]), sum(map(np.sum, batches))
    most = max(1, int(np.sum(batches[0]) // np.max(batches[0])))
    found = []
    for shared in (SharedRows(texts, number, (step,)) for number in rows or range(1, most + 1) if number <= most):
        counts, widths = np.array([shared.shape(lengths) for lengths in batches]).T
        usual = _most(widths)
        positions = counts * np.where(widths > usual, widths.max(), usual)
        found.append((FULL * positions.sum() > real, positions.sum() * (ATTENTION + usual), shared))
    return min(found, key=lambda candidate: candidate[:2])[2]


def _most(widths: Sequence[int]) -> int:
    """The width that is enough for four of five batches."""
    return int(np.quantile(widths, 0.8, method="higher"))


def _places(lengths: Any, rows: int) -> tuple[list[tuple[int, int]], int]:
    """The row and the start of each text, and how full the fullest row is.

    The longest text first, each into the emptiest row. Then texts of the fullest row and of others are swapped as long
    as it becomes less full.
    """
    lengths = np.asarray(lengths)
    row, filled = np.zeros(len(lengths), int), np.zeros(rows, int)
    for text in np.argsort(-lengths, kind="stable"):
        row[text] = filled.argmin()
        filled[row[text]] += lengths[text]
    for _ in lengths:
        fullest = filled.argmax()
        inside, others = np.flatnonzero(row == fullest), np.flatnonzero(row != fullest)
        if not len(others):
            break
        less = lengths[inside][:, None] - lengths[others]  # [texts of the row, other texts]
        then = np.maximum(filled[fullest] - less, filled[row[others]] + less)
        one, other = np.unravel_index(then.argmin(), then.shape)
        if then[one, other] >= filled[fullest]:
            break
        partner = row[others[other]]
        filled[fullest] -= less[one, other]
        filled[partner] += less[one, other]
        row[inside[one]], row[others[other]] = partner, fullest
    starts = np.zeros(len(lengths), int)
    for number in range(rows):
        inside = np.flatnonzero(row == number)
        starts[inside] = np.cumsum(lengths[inside]) - lengths[inside]
    return list(zip(row.tolist(), starts.tolist(), strict=True)), int(filled.max())
