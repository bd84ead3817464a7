"""The layers between the matrix products: layer normalization, with and without a residual, and dropout."""

import functools
import operator
from typing import Any

import keras
from keras import KerasTensor

from keras_bert import kernels
from keras_bert.layers.states import record


@keras.saving.register_keras_serializable("keras_bert")
class LayerNorm(keras.layers.LayerNormalization):
    """Layer normalization of the last axis, computed in float32."""

    def __init__(self, *, epsilon: float = 1e-12, **kwargs: Any) -> None:
        super().__init__(epsilon=epsilon, autocast=False, **kwargs)

    def call(self, x: Any) -> Any:
        return kernels.layer_norm(x, self.gamma, self.beta, self.epsilon)

    def compute_output_spec(self, x: KerasTensor) -> KerasTensor:
        return KerasTensor(x.shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        kept = ("name", "trainable", "dtype", "epsilon")
        return {key: config[key] for key in kept}


@keras.saving.register_keras_serializable("keras_bert")
class AddNorm(LayerNorm):
    """Layer normalization of a sum: a sublayer's output and its input."""

    def build(self, input_shape: Any) -> None:
        super().build(input_shape[0])

    def call(self, terms: list[Any]) -> Any:
        # Without keras.ops.add, which treats an empty [0, H] as a bias.
        x = super().call(functools.reduce(operator.add, terms))
        record(norms=x)
        return x

    def compute_output_spec(self, terms: list[KerasTensor]) -> KerasTensor:
        return super().compute_output_spec(terms[0])


@keras.saving.register_keras_serializable("keras_bert")
class Dropout(keras.layers.Dropout):
    """Dropout with random bytes; each replica of a strategy draws its own."""

    def call(self, x: Any, training: bool | None = False) -> Any:
        if not training or self.rate == 0:
            return x
        return kernels.dropout(x, self.rate, self.seed_generator.next())

    def compute_output_spec(self, x: KerasTensor, training: bool | None = False) -> KerasTensor:
        return KerasTensor(x.shape, dtype=self.compute_dtype)
