"""Self-attention, without weights of its own: its Dense layers are nodes of the model."""

import math
from typing import Any

import keras
from keras import KerasTensor, ops

from keras_bert import kernels


@keras.saving.register_keras_serializable("keras_bert")
class SelfAttention(keras.layers.Layer):
    """From queries, keys and values side by side [N, 3H] to their context [N, H], each sequence to itself.

    Arguments: num_heads: A. dropout: of the attention probabilities. remat: compute the probabilities again in the
    backward pass instead of keeping them.
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

        def attend(qkv: Any, rows: Any, slots: Any, bias: Any) -> Any:
            query, key, value = _split_heads(qkv, rows, slots, self.num_heads)
            if seed is None and kernels.fused_attention():
                context = kernels.attention(query, key, value, bias)  # [B, A, S, D]
            else:
                weights = _attention_map(query, key, bias)
                if seed is not None:
                    weights = kernels.dropout(weights, self.dropout, seed)
                context = ops.matmul(weights, value)  # [B, A, S, D]
            context = ops.transpose(context, (0, 2, 1, 3))  # [B, S, A, D]
            context = ops.reshape(context, (*ops.shape(slots), qkv.shape[-1] // 3))  # [B, S, H]
            return kernels.pack(context, rows, slots)  # [N, H]

        if self.remat and training:
            attend = keras.remat(attend)
        return attend(qkv, padding["rows"], padding["slots"], padding["bias"])

    def compute_output_spec(
        self, qkv: KerasTensor, padding: dict[str, KerasTensor], training: bool | None = None
    ) -> KerasTensor:
        return KerasTensor((None, qkv.shape[-1] // 3), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        numbers = {"num_heads": self.num_heads, "dropout": self.dropout, "remat": self.remat, "seed": self.seed}
        return {**super().get_config(), **numbers}


@keras.saving.register_keras_serializable("keras_bert")
class AttentionMap(keras.layers.Layer):
    """What each token attends to, [B, A, S, S], from the same queries and keys; zero at padding."""

    def __init__(self, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.built = True

    def call(self, qkv: Any, padding: dict[str, Any]) -> Any:
        query, key, _ = _split_heads(qkv, padding["rows"], padding["slots"], self.num_heads)
        real = ops.equal(padding["bias"], 0)  # [B, 1, 1, S]
        both = ops.logical_and(real, ops.swapaxes(real, -1, -2))  # [B, 1, S, S]
        weights = _attention_map(query, key, padding["bias"])
        return ops.where(both, weights, ops.zeros((), weights.dtype))  # [B, A, S, S]

    def compute_output_spec(self, qkv: KerasTensor, padding: dict[str, KerasTensor]) -> KerasTensor:
        batch, length = padding["slots"].shape
        return KerasTensor((batch, self.num_heads, length, length), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_heads": self.num_heads}


def _split_heads(qkv: Any, rows: Any, slots: Any, num_heads: int) -> list[Any]:
    batch, length = ops.shape(slots)
    qkv = kernels.unpack(qkv, rows, slots)  # [B, S, 3H]
    qkv = ops.reshape(qkv, (batch, length, 3, num_heads, qkv.shape[-1] // 3 // num_heads))  # [B, S, 3, A, D]
    return ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3)  # 3 x [B, A, S, D]


def _attention_map(query: Any, key: Any, bias: Any) -> Any:
    scale = 1 / math.sqrt(query.shape[-1])
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) * scale + bias  # [B, A, S, S]
    return kernels.softmax(scores)
