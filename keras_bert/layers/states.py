"""What an encoder computes on the way from ids to vectors, for losses that compare two encoders."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_found: ContextVar[dict[str, list[Any]] | None] = ContextVar("states", default=None)


@contextmanager
def recorded_states() -> Iterator[dict[str, list[Any]]]:
    """A block in which the states of the encoder that runs are recorded, in the order of its blocks.

    `norms`: [N, H] of the embeddings, then two of each block, the second of which is its output. `qkv`: [N, 3H] of each
    block, the queries, keys and values side by side. `padding`: what `Padding` returned, for each block.
    """
    found: dict[str, list[Any]] = {"norms": [], "qkv": [], "padding": []}
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)


def record(**states: Any) -> None:
    """Add states, if they are being recorded."""
    found = _found.get()
    if found is not None:
        for name, state in states.items():
            found[name].append(state)
