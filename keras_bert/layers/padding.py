"""Padding: how a batch [B, S] becomes a sequence of real tokens [N, H], and a batch again."""

from typing import Any

import keras
from keras import KerasTensor, ops

from keras_bert import kernels
from keras_bert.layers.plain import Plain


@keras.saving.register_keras_serializable("keras_bert")
class Padding(Plain):
    """From a mask: the positions of the real tokens, and what attention adds to the scores of the other keys."""

    def call(self, mask: Any) -> dict[str, Any]:
        rows, slots, stand_ins = kernels.real_tokens(mask)
        hidden = ops.expand_dims(ops.equal(mask, 0), (1, 2))  # [B, 1, 1, S]
        if (shared := kernels.shared_rows()) is not None:
            text = ops.expand_dims(shared // mask.shape[1], 1)  # [R, 1, L]
            hidden = ops.not_equal(text[:, :, :, None], text[:, :, None])  # [R, 1, L, L]
        # Large enough for the softmax to give 0, small enough that a row of only padding stays finite.
        bias = ops.where(hidden, -3e4 if self.compute_dtype == "float16" else -1e9, 0.0)
        return {"rows": rows, "slots": slots, "stand_ins": stand_ins, "bias": ops.cast(bias, self.compute_dtype)}

    def compute_output_spec(self, mask: KerasTensor) -> dict[str, KerasTensor]:
        batch, length = mask.shape
        return {
            "rows": KerasTensor((None,), dtype="int32"),
            "slots": KerasTensor((batch, length), dtype="int32"),
            "stand_ins": KerasTensor((batch, length), dtype="int32"),
            "bias": KerasTensor((batch, 1, 1, length), dtype=self.compute_dtype),
        }


@keras.saving.register_keras_serializable("keras_bert")
class Pack(Plain):
    """From ids [B, S] to those of the real tokens [N]."""

    def call(self, x: Any, padding: dict[str, Any]) -> Any:
        return kernels.pack(x, padding["rows"])

    def compute_output_spec(self, x: KerasTensor, padding: dict[str, KerasTensor]) -> KerasTensor:
        return KerasTensor((None,), dtype=x.dtype)


@keras.saving.register_keras_serializable("keras_bert")
class Unpack(Plain):
    """From the real tokens [N, H] to [B, S, H], exactly zero at padding."""

    def call(self, x: Any, padding: dict[str, Any]) -> Any:
        x = kernels.unpack(x, padding["rows"], padding["slots"])  # [B, S, H]
        if kernels.drops_padding() or kernels.shared_rows() is not None:
            return x
        real = ops.expand_dims(ops.equal(padding["bias"][:, 0, 0], 0), -1)  # [B, S, 1]
        return ops.where(real, x, ops.zeros((), x.dtype))

    def compute_output_spec(self, x: KerasTensor, padding: dict[str, KerasTensor]) -> KerasTensor:
        return KerasTensor((*padding["slots"].shape, x.shape[-1]), dtype=x.dtype)
