"""SharedRows: several short texts in one row (sequence packing), where shapes are static and padding costs time.

A batch stays [B, S]: B texts, each with padding up to S positions. The model computes R rows of L positions instead, in
which texts follow one another, and each attends only to itself (Krell et al. 2021, "Efficient Sequence Packing without
Cross-contamination"). This file decides where each text goes; `kernels.py` does the rest.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

NAME = "shared_rows"  # of the model's further input [R, L]
ROOM = 192  # the least L: longer rows have fewer gaps, shorter ones less attention
MANY = 256  # texts from which predictions share rows; for fewer, compiling further shapes takes longer than padding
SAMPLE = 500  # batches that decide the shapes
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
    [[4, 5, 6, 7, 12], [8, 9, 10, 0, 1]]
    """

    texts: int
    rows: int
    widths: tuple[int, ...]

    @classmethod
    def of(cls, batches: Sequence[Any]) -> "SharedRows":
        """For the batches of an epoch, whose texts have these lengths, and for further epochs like it."""
        batches = batches[-SAMPLE:]
        shared = cls(len(batches[0]), _rows(batches[0]), (1,))
        fullest = [shared.shape(lengths)[1] for lengths in batches]
        widths = {-(-int(width) // 4) * 4 for width in (np.quantile(fullest, 0.9), max(fullest) + 4)}
        return cls(shared.texts, shared.rows, tuple(sorted(widths)))

    @classmethod
    def roughly(cls, lengths: Any) -> "SharedRows":
        """For one batch, rounded to one of few shapes, since other calls have other texts."""
        rows = 1 << (_rows(lengths).bit_length() - 1)
        return cls(len(lengths), rows, (16,))

    def positions(self, lengths: Any) -> int:
        """How many positions the model computes for such a batch."""
        return math.prod(self.shape(lengths))

    def shape(self, lengths: Any) -> tuple[int, int]:
        """R and L of a batch whose texts have these lengths."""
        rows = -(-len(lengths) * self.rows // self.texts)
        fullest, last = _places(lengths, rows)[1], self.widths[-1]
        return rows, next((width for width in self.widths if width >= fullest), -(-fullest // last) * last)

    def sources(self, lengths: Any, width: int) -> np.ndarray:
        """For each position of the rows, the one of the flat batch [B * S], or B * S if it is empty: int32 [R, L].

        width: S.
        """
        rows, room = self.shape(lengths)
        found = np.full((rows, room), len(lengths) * width, "int32")  # [R, L]
        for text, (row, start) in enumerate(_places(lengths, rows)[0]):
            found[row, start : start + lengths[text]] = text * width + np.arange(lengths[text])
        return found


def alike(order: np.ndarray, lengths: np.ndarray, batch_size: int, noise: Any = None) -> list[np.ndarray]:
    """The batches of examples in this order, each with short and long examples alike; the last one may be smaller.

    The examples are sorted by length and split into as many parts as a batch has examples; each batch gets one of each
    part. Every second part is dealt at random by `noise`, a number for each example, and the parts between so that the
    batches become equal: the longest example to the batch with the fewest tokens.

    >>> [batch.tolist() for batch in alike(np.arange(5), np.array([9, 1, 8, 2, 3]), batch_size=2)]
    [[2, 1], [4, 3], [0]]
    """
    rest, whole = np.split(order, [len(order) % batch_size])
    parts = whole[np.argsort(-lengths[whole], kind="stable")].reshape(batch_size, -1)
    noise = np.zeros(parts.shape) if noise is None else noise[: parts.size].reshape(parts.shape)
    batches, tokens = np.empty_like(parts.T), np.zeros(parts.shape[1], "int64")
    for number, part in enumerate(parts):
        batches[np.argsort(tokens if number % 2 else noise[number], kind="stable"), number] = part
        tokens += lengths[batches[:, number]]
    return [*batches, rest] if len(rest) else [*batches]


def _rows(lengths: Any) -> int:
    """How many rows these texts fill, if a row has room for `ROOM` positions and for one and a half long texts."""
    return max(1, int(np.sum(lengths) // max(ROOM, 1.5 * np.max(lengths))))


def _places(lengths: Any, rows: int) -> tuple[list[tuple[int, int]], int]:
    """The row and the start of each text: the longest first, into the emptiest row. And how full the fullest row is."""
    places = [(0, 0)] * len(lengths)
    filled = [(0, row) for row in range(rows)]  # a heap
    for text in np.argsort(-np.asarray(lengths), kind="stable").tolist():
        start, row = filled[0]
        places[text] = row, start
        heapq.heapreplace(filled, (start + int(lengths[text]), row))
    return places, max(filled)[0]
