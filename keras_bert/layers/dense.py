"""Keras's own Dense, with BERT's initial values and its GELU."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from keras_bert import kernels
from keras_bert.config import BertConfig

_GELU = {"gelu_tanh": kernels.gelu_tanh, "gelu_erf": kernels.gelu_erf}


_blank: ContextVar[bool] = ContextVar("blank", default=False)


@contextmanager
def blank_weights() -> Iterator[None]:
    """Inside, kernels and tables begin as zeros: for a model whose weights are read next, so none is drawn in vain."""
    token = _blank.set(True)
    try:
        yield
    finally:
        _blank.reset(token)


@keras.saving.register_keras_serializable("keras_bert")
class Normal(keras.initializers.TruncatedNormal):
    """The truncated normal of every kernel and table, heads included."""

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return ops.zeros(shape, dtype) if _blank.get() else super().__call__(shape, dtype=dtype)


def initializer(config: BertConfig) -> keras.initializers.Initializer:
    """How every kernel and table begins."""
    return Normal(stddev=config.initializer_range)


def dense(units: int, config: BertConfig, *, gelu: bool = False, **kwargs: Any) -> keras.layers.Dense:
    """A Dense layer of `units`, through the config's GELU where asked."""
    if gelu:
        kwargs["activation"] = _GELU[config.hidden_act]
    return keras.layers.Dense(units, kernel_initializer=initializer(config), **kwargs)
