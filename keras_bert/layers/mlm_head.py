"""The masked language model's head: what stood at the masked positions."""

from typing import Any

import keras
from keras import KerasTensor, ops

from keras_bert import kernels
from keras_bert.config import BertConfig
from keras_bert.layers.dense import dense
from keras_bert.layers.embeddings import Embedding
from keras_bert.layers.norm import LayerNorm
from keras_bert.layers.plain import Plain


def mlm_head(
    sequence: KerasTensor, positions: KerasTensor, words: Embedding, config: BertConfig, dtype: Any = None
) -> KerasTensor:
    """Logits [B, P, V] at `positions` [B, P] of `sequence` [B, S, H]; the vocabulary product is tied to `words`."""
    x = GatherPositions(dtype=dtype, name="mlm_positions")(sequence, positions)  # [B, P, H]
    x = dense(config.hidden_size, config, gelu=True, dtype=dtype, name="mlm_dense")(x)
    x = LayerNorm(epsilon=config.layer_norm_eps, dtype=dtype, name="mlm_norm")(x)
    return Bias(dtype=dtype, name="mlm_bias")(words(x, reverse=True))  # [B, P, V]


@keras.saving.register_keras_serializable("keras_bert")
class GatherPositions(Plain):
    """The vectors [B, P, H] at positions [B, P] of a batch [B, S, H]."""

    def call(self, sequence: Any, positions: Any) -> Any:
        batch, length, hidden = ops.shape(sequence)
        rows = positions + length * ops.arange(batch, dtype=positions.dtype)[:, None]  # [B, P]
        return kernels.lookup(ops.reshape(sequence, (-1, hidden)), rows)  # [B, P, H]

    def compute_output_spec(self, sequence: KerasTensor, positions: KerasTensor) -> KerasTensor:
        return KerasTensor((*positions.shape, sequence.shape[-1]), dtype=sequence.dtype)


@keras.saving.register_keras_serializable("keras_bert")
class Bias(Plain):
    """Adds a vector to the last axis."""

    def build(self, input_shape: Any) -> None:
        self.bias = self.add_weight(shape=(input_shape[-1],), initializer="zeros", name="bias")

    def call(self, x: Any) -> Any:
        return x + self.bias

    def compute_output_spec(self, x: KerasTensor) -> KerasTensor:
        return KerasTensor(x.shape, dtype=self.compute_dtype)
