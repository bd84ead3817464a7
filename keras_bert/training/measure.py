"""Measure: what a batch adds to a mean."""

from typing import Any, NamedTuple


class Measure(NamedTuple):
    """A sum and how many were summed, both float32 scalars.

    The mean over a global batch is the sum of totals by the sum of counts, over all replicas and all parts of an
    accumulated batch: the mean of the replicas' own means would weigh a masked position by how many others its replica
    drew.

    >>> parts = [Measure(total=6.0, count=3.0), Measure(total=1.0, count=1.0)]
    >>> sum(part.total for part in parts) / sum(part.count for part in parts)
    1.75
    """

    total: Any
    count: Any
