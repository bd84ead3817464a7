"""Keras's own Dense, with BERT's initial weights and GELU."""

import math
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from keras_bert import kernels
from keras_bert.config import BertConfig
from keras_bert.using import using

_GELU = {"gelu_tanh": kernels.gelu_tanh, "gelu_erf": kernels.gelu_erf}


_blank: ContextVar[bool] = ContextVar("blank", default=False)


def blank_weights() -> AbstractContextManager[Any]:
    """A block in which kernels and tables start as zeros, since their weights are read from a file next."""
    return using(_blank, True)


@keras.saving.register_keras_serializable("keras_bert")
class Normal(keras.initializers.TruncatedNormal):
    """The truncated normal of every kernel and table, heads included."""

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        if _blank.get():
            return ops.zeros(shape, dtype)
        # The inverse of the distribution function at uniform numbers takes half the time of Keras's draws, which
        # discard those beyond two standard deviations. In float32: in bfloat16 a uniform number has only 8 bits.
        reach = math.erf(math.sqrt(2))  # the share of a normal distribution within two standard deviations
        shares = keras.random.uniform(shape, -reach, reach, dtype="float32", seed=self.seed)
        return ops.cast(ops.erfinv(shares) * (math.sqrt(2) * self.stddev) + self.mean, dtype or keras.config.floatx())


def initializer(config: BertConfig) -> keras.initializers.Initializer:
    """The initial weights of every kernel and table."""
    return Normal(stddev=config.initializer_range)


def dense(units: int, config: BertConfig, *, gelu: bool = False, **kwargs: Any) -> keras.layers.Dense:
    """A Dense layer of `units`, followed by the config's GELU if `gelu` is true."""
    if gelu:
        kwargs["activation"] = _GELU[config.hidden_act]
    return keras.layers.Dense(units, kernel_initializer=initializer(config), **kwargs)
