"""using: a block in which a context variable has a value."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def using(variable: ContextVar[Value], value: Value) -> Iterator[Value]:
    """A block in which a context variable has this value.

    >>> name = ContextVar("name", default="outside")
    >>> with using(name, "inside"):
    ...     name.get()
    'inside'
    >>> name.get()
    'outside'
    """
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
