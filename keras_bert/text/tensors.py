"""Which of the two engines of text runs: TensorFlow with TensorFlow Text, or Python and numpy where one is missing."""

from functools import cache
from typing import Any

from keras_bert.installation import has_tensorflow


@cache
def in_graph() -> bool:
    """Whether text runs in TensorFlow, so that it can be part of a graph."""
    return has_tensorflow("tensorflow_text")


@cache
def tensors() -> Any:
    """The namespace with the ops: TensorFlow, or `numpy_tensors`, which has the same names.

    >>> tensors().cumsum([1, 2, 3], exclusive=True).shape
    TensorShape([3])
    """
    if in_graph():
        import tensorflow as tf

        return tf
    from keras_bert.text import numpy_tensors

    return numpy_tensors
