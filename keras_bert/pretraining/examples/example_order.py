"""The order in which examples are read: a pure function of the seed and the place in the stream.

Each epoch visits the shards in an order of its own, in groups, and shuffles the examples of each group. A reader can
therefore start anywhere after loading one group, and memory holds one or two groups.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

GROUP_SIZE = 131_072  # examples that are shuffled together; a larger shard is a group of its own


class ShardGroup(NamedTuple):
    """Some shards of one epoch, and the order of their examples."""

    shards: list[int]
    order: np.ndarray  # indices of examples, counted through these shards


def shuffled_groups(counts: Sequence[int], seed: int, start: int, epochs: int | None) -> Iterator[ShardGroup]:
    """The groups of the stream from its example number `start` on.

    >>> [sorted(group.shards) for group in shuffled_groups([2, 3], seed=0, start=5, epochs=2)]
    [[0, 1]]
    """
    epoch, skip = divmod(start, sum(counts))
    while epochs is None or epoch < epochs:
        for number, shards in enumerate(_groups(counts, seed, epoch)):
            size = sum(counts[shard] for shard in shards)
            if skip < size:
                yield ShardGroup(shards, _shuffled(size, seed, epoch, number + 1)[skip:])
            skip = max(0, skip - size)
        epoch += 1


def shards_at(counts: Sequence[int], seed: int, begin: int, end: int) -> list[int]:
    """The shards that hold the examples number begin to end - 1 of the stream."""
    found: dict[int, None] = {}
    for group in shuffled_groups(counts, seed, begin, None):
        bounds = np.cumsum([counts[shard] for shard in group.shards])
        read = group.order[: end - begin]
        found |= dict.fromkeys(group.shards[index] for index in np.unique(np.searchsorted(bounds, read, "right")))
        begin += len(read)
        if begin >= end:
            break
    return list(found)


def _groups(counts: Sequence[int], seed: int, epoch: int) -> Iterator[list[int]]:
    shards: list[int] = []
    size = 0
    for shard in _shuffled(len(counts), seed, epoch, 0).tolist():
        if shards and size + counts[shard] > GROUP_SIZE:
            yield shards
            shards, size = [], 0
        shards.append(shard)
        size += counts[shard]
    yield shards


def _shuffled(size: int, *key: int) -> np.ndarray:
    seed = np.random.SeedSequence([part % 2**64 for part in key])
    return np.random.Generator(np.random.Philox(seed)).permutation(size)
