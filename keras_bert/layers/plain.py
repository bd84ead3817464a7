"""The base of layers that have no arguments of their own."""

from typing import Any

import keras


class Plain(keras.layers.Layer):
    """A Keras layer whose config is that of any layer; Keras's guess at it fails on a dtype policy."""

    def get_config(self) -> dict[str, Any]:
        return super().get_config()
