"""How many inputs a test draws: a fixed few in CI, and many new ones where HOSTILE names a factor."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, settings

FACTOR = int(os.environ.get("HOSTILE", "0"))  # `make soak` sets it


def hostile(examples: int) -> Callable[[Callable], Callable]:
    """A decorator of a test that draws this many inputs in CI."""
    return settings(
        max_examples=examples * max(1, FACTOR),
        derandomize=not FACTOR,  # the same inputs every time
        database=None,
        deadline=None,
        print_blob=bool(FACTOR),
        suppress_health_check=list(HealthCheck),
    )
