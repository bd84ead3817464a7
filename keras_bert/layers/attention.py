"""Self-attention. It has no weights: its Dense layers are nodes of the model."""

import math
from typing import Any

import keras
from keras import KerasTensor, ops

from keras_bert import kernels
from keras_bert.layers.states import record


@keras.saving.register_keras_serializable("keras_bert")
class SelfAttention(keras.layers.Layer):
    """From queries, keys and values side by side [N, 3H] to their context [N, H], within each sequence.

    Args:
        num_heads: A.
        dropout: of the attention probabilities.
        remat: compute the probabilities again in the backward pass instead of keeping them.
    """

    def __init__(
        self, num_heads: int, *, dropout: float = 0.0, remat: bool = False, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout = dropout
        self.remat = remat
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None
        self.built = True

    def call(self, qkv: Any, padding: dict[str, Any], training: bool | None = None) -> Any:
        seed = self.seed_generator.next() if training and self.seed_generator is not None else None
        record(qkv=qkv, padding=padding)

        def attend(qkv: Any) -> Any:
            query, key, value = kernels.split_heads(qkv, padding, self.num_heads)  # 3 x [B, A, S, D]
            if seed is None and kernels.fused_attention():
                context = kernels.attention(query, key, value, padding["bias"])  # [B, A, S, D]
            else:
                weights = _attention_map(query, key, padding["bias"])
                if seed is not None:
                    weights = kernels.dropout(weights, self.dropout, seed)
                context = ops.matmul(weights, value)  # [B, A, S, D]
            return kernels.merge_heads(context, padding)  # [N, H]

        if self.remat and training:
            attend = keras.remat(attend)
        return attend(qkv)

    def compute_output_spec(
        self, qkv: KerasTensor, padding: dict[str, KerasTensor], training: bool | None = None
    ) -> KerasTensor:
        return KerasTensor((None, qkv.shape[-1] // 3), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        numbers = {"num_heads": self.num_heads, "dropout": self.dropout, "remat": self.remat, "seed": self.seed}
        return {**super().get_config(), **numbers}


@keras.saving.register_keras_serializable("keras_bert")
class AttentionMap(keras.layers.Layer):
    """How much each token attends to each other, [B, A, S, S], from the same queries and keys; zero at padding."""

    def __init__(self, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.built = True

    def call(self, qkv: Any, padding: dict[str, Any]) -> Any:
        query, key, _ = kernels.split_heads(qkv, padding, self.num_heads)
        real = ops.equal(padding["bias"], 0)  # [B, 1, 1, S]
        both = ops.logical_and(real, ops.swapaxes(real, -1, -2))  # [B, 1, S, S]
        weights = _attention_map(query, key, padding["bias"])
        return ops.where(both, weights, ops.zeros((), weights.dtype))  # [B, A, S, S]

    def compute_output_spec(self, qkv: KerasTensor, padding: dict[str, KerasTensor]) -> KerasTensor:
        batch, length = padding["slots"].shape
        return KerasTensor((batch, self.num_heads, length, length), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_heads": self.num_heads}


def _attention_map(query: Any, key: Any, bias: Any) -> Any:
    scale = 1 / math.sqrt(query.shape[-1])
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) * scale + bias  # [B, A, S, S]
    return kernels.softmax(scores)
