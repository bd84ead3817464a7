"""Measure: the contribution of a batch to a mean."""

from typing import Any, NamedTuple


class Measure(NamedTuple):
    """A sum and the number of summands, both float32 scalars.

    The mean over a global batch is the sum of totals divided by the sum of counts, over all replicas and all parts of
    an accumulated batch. In a mean of the replicas' means, the weight of a masked position would depend on the number
    of positions on its replica.

    >>> parts = [Measure(total=6.0, count=3.0), Measure(total=1.0, count=1.0)]
    >>> sum(part.total for part in parts) / sum(part.count for part in parts)
    1.75
    """

    total: Any
    count: Any
