"""The head of the masked language model, which predicts the pieces at the masked positions."""

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
    """Logits [B, P, V] at `positions` [B, P] of `sequence` [B, S, H]; the vocabulary product is tied to `words`.

    The positions are gathered into one matrix first, which backends multiply fastest.
    """
    x = GatherPositions(dtype=dtype, name="mlm_positions")(sequence, positions)  # [B*P, H]
    x = dense(config.hidden_size, config, gelu=True, dtype=dtype, name="mlm_dense")(x)  # [B*P, H]
    x = LayerNorm(epsilon=config.layer_norm_eps, dtype=dtype, name="mlm_norm")(x)  # [B*P, H]
    logits = Logits(dtype="float32", name="mlm_bias")  # for the softmax over the vocabulary
    return logits(words(x, reverse=True), positions)  # [B, P, V]


@keras.saving.register_keras_serializable("keras_bert")
class GatherPositions(Plain):
    """The vectors [B*P, H] at positions [B, P] of a batch [B, S, H]."""

    def call(self, sequence: Any, positions: Any) -> Any:
        return kernels.at_positions(sequence, positions)

    def compute_output_spec(self, sequence: KerasTensor, positions: KerasTensor) -> KerasTensor:
        return KerasTensor((None, sequence.shape[-1]), dtype=sequence.dtype)


@keras.saving.register_keras_serializable("keras_bert")
class Logits(Plain):
    """Adds the bias of each piece, and restores the batch: [B*P, V] -> [B, P, V]."""

    def build(self, products_shape: Any, positions_shape: Any) -> None:
        self.bias = self.add_weight(shape=(products_shape[-1],), initializer="zeros", name="bias")

    def call(self, products: Any, positions: Any) -> Any:
        return ops.reshape(products + self.bias, (*ops.shape(positions), products.shape[-1]))  # [B, P, V]

    def compute_output_spec(self, products: KerasTensor, positions: KerasTensor) -> KerasTensor:
        return KerasTensor((*positions.shape, products.shape[-1]), dtype=self.compute_dtype)
