"""What a model is measured by, so that means over a global batch are exact."""

from typing import Any, NamedTuple


class Measure(NamedTuple):
    """A sum and what to divide it by: over replicas and steps, each is summed before they are divided."""

    total: Any  # float32 []
    count: Any  # float32 []
