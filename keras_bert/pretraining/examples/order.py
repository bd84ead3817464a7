"""The order in which examples come: a pure function of the seed and the place in the stream.

Each epoch takes the shards in an order of its own, some at a time (a window), and shuffles the examples of a window.
So a reader can begin at any place after reading one window, and memory holds one or two.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

WINDOW = 131_072  # examples that are shuffled together, or the one shard that has more


class Window(NamedTuple):
    """Some shards of one epoch, and the order of their examples."""

    shards: list[int]
    order: np.ndarray  # of the examples, counted through these shards


def windows(counts: Sequence[int], seed: int, start: int, epochs: int | None) -> Iterator[Window]:
    """The windows from the example at place `start` of the stream on, without what comes before it.

    >>> [sorted(window.shards) for window in windows([2, 3], seed=0, start=5, epochs=2)]
    [[0, 1]]
    """
    total = sum(counts)
    epoch, skip = divmod(start, total)
    while epochs is None or epoch < epochs:
        for shards, number in _epoch(counts, seed, epoch):
            size = sum(counts[shard] for shard in shards)
            if skip < size:
                order = _shuffled(size, seed, epoch, number + 1)
                yield Window(shards, order[skip:])
            skip = max(0, skip - size)
        epoch += 1


def shards_at(counts: Sequence[int], seed: int, begin: int, end: int) -> list[int]:
    """The shards that hold the examples at places begin to end - 1 of the stream."""
    found: dict[int, None] = {}
    for window in windows(counts, seed, begin, None):
        bounds = np.cumsum([counts[shard] for shard in window.shards])
        taken = window.order[: end - begin]
        found |= dict.fromkeys(window.shards[index] for index in np.unique(np.searchsorted(bounds, taken, "right")))
        begin += len(taken)
        if begin >= end:
            break
    return list(found)


def _epoch(counts: Sequence[int], seed: int, epoch: int) -> Iterator[tuple[list[int], int]]:
    shards: list[int] = []
    size = number = 0
    for shard in _shuffled(len(counts), seed, epoch, 0).tolist():
        if shards and size + counts[shard] > WINDOW:
            yield shards, number
            shards, size, number = [], 0, number + 1
        shards.append(shard)
        size += counts[shard]
    yield shards, number


def _shuffled(size: int, *key: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([part % 2**64 for part in key]))).permutation(
        size
    )
