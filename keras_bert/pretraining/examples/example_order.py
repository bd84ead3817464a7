"""The order in which examples are read: a pure function of the seed and the place in the stream.

Each epoch visits the shards in an order of its own, in groups, and shuffles the examples of each group. A reader can
therefore start anywhere after loading one group, and memory holds one or two groups.

Several hosts read the same groups, each the examples of its part of every batch, so that the order does not depend on
their number.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

GROUP_SIZE = 131_072  # examples that are shuffled together; a larger shard of `write_examples` is a group of its own


class ShardGroup(NamedTuple):
    """Some shards of one epoch, and the order of their examples, or of some of them."""

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


def groups_of_part(
    counts: Sequence[int],
    seed: int,
    *,
    batch_size: int,
    start: int,
    part: tuple[int, int],
    epochs: int | None,
    fill: bool,
) -> Iterator[ShardGroup]:
    """The groups from step `start` on, with the examples of part i of the n equal parts of each batch.

    fill: whether the last example is repeated until its batch is full; otherwise a batch that is not full is left out.

    >>> parts = [(0, 2), (1, 2)]
    >>> options = {"batch_size": 2, "start": 1, "epochs": 1, "fill": False}
    >>> found = [group.order.size for part in parts for group in groups_of_part([4, 3], 0, part=part, **options)]
    >>> found  # of the 7 examples, 2 are in the first batch, and the last batch would not be full
    [2, 2]
    >>> sum(1 for part in parts for group in groups_of_part([4, 3], 0, part=part, **options | {"start": 3}))  # none
    0
    """
    index, parts = part
    total = examples_in(counts, epochs)
    place = start * batch_size  # of the next example in the stream
    for shards, order in shuffled_groups(counts, seed, place, epochs):
        if fill and place + len(order) == total:
            order = np.append(order, np.repeat(order[-1:], -total % batch_size))
        places = np.arange(place, place + len(order))
        place += len(order)
        is_own = places % batch_size // (batch_size // parts) == index
        if not fill:
            is_own &= places < total - total % batch_size
        if is_own.any():
            yield ShardGroup(shards, order[is_own])


def examples_in(counts: Sequence[int], epochs: int | None) -> int:
    """The number of examples of so many epochs; for None, more than can be read."""
    return 2**62 if epochs is None else sum(counts) * epochs


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
