"""Keras's own Dense, with BERT's initial values and its GELU."""

from typing import Any

import keras

from keras_bert import kernels
from keras_bert.config import BertConfig

_GELU = {"gelu_tanh": kernels.gelu_tanh, "gelu_erf": kernels.gelu_erf}


def initializer(config: BertConfig) -> keras.initializers.Initializer:
    """The truncated normal of every kernel and table, heads included."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def dense(units: int, config: BertConfig, *, gelu: bool = False, **kwargs: Any) -> keras.layers.Dense:
    """A Dense layer of `units`, through the config's GELU where asked."""
    if gelu:
        kwargs["activation"] = _GELU[config.hidden_act]
    return keras.layers.Dense(units, kernel_initializer=initializer(config), **kwargs)
