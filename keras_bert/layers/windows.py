"""Windows of long texts in a model: [B, K, S] to the real ones, [W, S], and their vectors to one vector a text."""

from typing import Any

import keras
from keras import KerasTensor, ops

from keras_bert import kernels
from keras_bert.layers.plain import Plain

_NOWHERE = -1e9


@keras.saving.register_keras_serializable("keras_bert")
class RealWindows(Plain):
    """From [B, K, S] to the windows that are real, [W, S]; where shapes are static, to all, [B * K, S].

    `padding` is that of windows: what `Padding` returns for a mask [B, K].
    """

    def call(self, x: Any, padding: dict[str, Any]) -> Any:
        x = ops.reshape(x, (-1, ops.shape(x)[-1]))  # [B * K, S]
        return ops.take(x, padding["rows"], axis=0) if kernels.drops_padding() else x  # [W, S]

    def compute_output_spec(self, x: KerasTensor, padding: dict[str, KerasTensor]) -> KerasTensor:
        return KerasTensor((None, x.shape[-1]), dtype=x.dtype)


@keras.saving.register_keras_serializable("keras_bert")
class WindowPooling(keras.layers.Layer):
    """From the vectors of windows [W, H] to one for each text, [B, H].

    pool: "mean", "max", or "attention", a mean weighted by the softmax of the products with a learned vector (Yang et
    al. 2016, "Hierarchical Attention Networks for Document Classification"). It is 0 at first, which is the mean.
    """

    def __init__(self, pool: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pool = pool

    def build(self, vectors_shape: Any, padding_shape: Any = None) -> None:
        if self.pool == "attention":
            self.query = self.add_weight(shape=(vectors_shape[-1], 1), initializer="zeros", name="query")

    def call(self, vectors: Any, padding: dict[str, Any]) -> Any:
        vectors = kernels.unpack(vectors, padding["rows"], padding["slots"])  # [B, K, H]
        return self.pooled(vectors, ops.equal(padding["bias"][:, 0, 0], 0))

    def pooled(self, vectors: Any, real: Any) -> Any:
        """From [B, K, H] to [B, H], over the windows that are `real` [B, K]."""
        real = ops.expand_dims(real, -1)  # [B, K, 1]
        if self.pool == "max":
            return ops.max(ops.where(real, vectors, _NOWHERE), axis=1)  # [B, H]
        scores = ops.matmul(vectors, self.query) if self.pool == "attention" else vectors[..., :1] * 0  # [B, K, 1]
        scores = ops.where(real, scores, _NOWHERE)
        powers = ops.exp(scores - ops.max(scores, axis=1, keepdims=True))  # [B, K, 1]; ops.softmax warns where K is 1
        return ops.sum(powers * vectors, axis=1) / ops.sum(powers, axis=1)  # [B, H]

    def compute_output_spec(self, vectors: KerasTensor, padding: dict[str, KerasTensor]) -> KerasTensor:
        return KerasTensor((padding["slots"].shape[0], vectors.shape[-1]), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"pool": self.pool}
