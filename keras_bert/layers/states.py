"""What an encoder computes on the way from ids to vectors, for losses that compare two encoders."""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from keras_bert.using import using

_found: ContextVar[dict[str, list[Any]] | None] = ContextVar("states", default=None)


def recorded_states() -> AbstractContextManager[Any]:
    """A block in which the states of the encoder that runs are recorded, in the order of its blocks.

    `norms`: [N, H] of the embeddings, then two of each block, the second of which is its output. `qkv`: [N, 3H] of each
    block, the queries, keys and values side by side. `padding`: what `Padding` returned, for each block.
    """
    return using(_found, {"norms": [], "qkv": [], "padding": []})


def record(**states: Any) -> None:
    """Add states, if they are being recorded."""
    found = _found.get()
    if found is not None:
        for name, state in states.items():
            found[name].append(state)
