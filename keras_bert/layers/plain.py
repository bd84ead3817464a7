"""The base of layers without arguments."""

from typing import Any

import keras


class Plain(keras.layers.Layer):
    """A Keras layer with only the config that every layer has; Keras cannot infer it when a dtype policy is given."""

    def get_config(self) -> dict[str, Any]:
        return super().get_config()
