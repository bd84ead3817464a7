"""Which of the two engines of text runs: TensorFlow with TensorFlow Text, or Python and numpy where one is missing."""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from keras_bert.installation import has_tensorflow
from keras_bert.lazy import Lazy
from keras_bert.text import numpy_tensors
from keras_bert.using import using

_arrays: ContextVar[bool] = ContextVar("arrays", default=False)


def arrays() -> AbstractContextManager[Any]:
    """A block in which numpy does the work, which takes less time for a few rows outside of a graph."""
    return using(_arrays, True)


def uses_arrays() -> bool:
    """Whether this runs in a block of `arrays`."""
    return _arrays.get()


def uses_tensorflow() -> bool:
    """Whether text runs in TensorFlow, so that it can be part of a graph."""
    return not uses_arrays() and has_text()


@cache
def has_text() -> bool:
    """Whether TensorFlow Text is installed."""
    return has_tensorflow("tensorflow_text")


def tensors() -> Any:
    """The namespace with the ops: TensorFlow, or `numpy_tensors`, which has the same names.

    >>> tensors().cumsum([1, 2, 3], exclusive=True).shape
    TensorShape([3])
    """
    if _arrays.get() or not has_text():  # as `uses_tensorflow`, but this runs often
        return numpy_tensors
    import tensorflow as tf

    return tf


if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = Lazy(tensors)
