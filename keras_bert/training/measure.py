"""Measure: the contribution of a batch to a mean; and the means of sums of measures."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np


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


def means(names: Iterable[str], sums: Any) -> dict[str, float]:
    """The mean of each measure from its total and its count, an array [measures, 2]; 0 without anything to count.

    >>> means(["loss", "accuracy"], np.array([[6.0, 3.0], [0.0, 0.0]]))
    {'loss': 2.0, 'accuracy': 0.0}
    """
    pairs = zip(names, np.asarray(sums), strict=True)
    return {name: float(total / count) if count else 0.0 for name, (total, count) in pairs}
