"""The matrix products of an encoder block: Keras's Dense, or one that multiplies whole numbers of 8 bits."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np
from keras import KerasTensor, ops

from keras_bert import kernels
from keras_bert.config import BertConfig
from keras_bert.layers.dense import dense
from keras_bert.using import using

_SHARE = 0.7  # how much of the difference between channels moves from the inputs to the kernel

_int8: ContextVar[bool | None] = ContextVar("int8", default=None)


def int8_blocks(*, fixed_ranges: bool) -> AbstractContextManager[Any]:
    """A block in which the products of new encoder blocks are `Int8Dense`, whose weights are set next."""
    return using(_int8, fixed_ranges)


def block_dense(
    units: int,
    config: BertConfig,
    *,
    gelu: bool = False,
    after_norm: bool = False,
    after_gelu: bool = False,
    **kwargs: Any,
) -> keras.layers.Layer:
    """A product of an encoder block, whose input comes from a norm, from a GELU or from neither."""
    fixed_ranges = _int8.get()
    if fixed_ranges is None:
        return dense(units, config, gelu=gelu, **kwargs)
    activation = config.hidden_act if gelu else None
    return Int8Dense(
        units, activation=activation, smooth=after_norm, by_row=after_gelu, fixed_range=fixed_ranges, **kwargs
    )


@keras.saving.register_keras_serializable("keras_bert")
class Int8Dense(keras.layers.Layer):
    """From x [N, K] to [N, M] by a kernel of int8, on TensorFlow's CPU. It answers, and is not trained or saved.

    x is rounded to 255 whole numbers, which share one range.

    Args:
        activation: "gelu_tanh", "gelu_erf" or None.
        smooth: divide each channel of x by its usual size, and multiply the kernel's row by it, so that a channel of
            large numbers does not make the others coarse (SmoothQuant, Xiao et al. 2022).
        by_row: each row of x gets its own range. x comes from a GELU, where some tokens have far larger numbers.
        fixed_range: the range is that of the texts the layer was calibrated with, not of each batch.
    """

    def __init__(
        self,
        units: int,
        *,
        activation: str | None = None,
        smooth: bool = False,
        by_row: bool = False,
        fixed_range: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.activation = activation
        self.smooth = smooth
        self.by_row = by_row
        self.fixed_range = fixed_range

    def build(self, input_shape: Any) -> None:
        def weight(name: str, *shape: int, dtype: str = "float32") -> Any:
            return self.add_weight(
                name=name, shape=shape, dtype=dtype, initializer="zeros", trainable=False, autocast=False
            )

        size = input_shape[-1]
        self.kernel = weight("kernel", size, self.units, dtype="int8")
        self.kernel_scale = weight("kernel_scale", self.units)
        self.bias = weight("bias", self.units)
        self.smoothing = weight("smoothing", size) if self.smooth else None
        self.range = weight("range") if self.fixed_range and not self.by_row else None

    def set_from(self, kernel: np.ndarray, bias: np.ndarray, largest: np.ndarray) -> None:
        """Take the weights of a Dense layer. largest: the largest number in each channel of its inputs, [K]."""
        if not (np.isfinite(kernel).all() and np.isfinite(bias).all()):
            raise ValueError(f"The layer {self.name} has weights that are NaN or infinite. Received: {self.name}")
        if self.smoothing is not None:
            sizes = _smoothing(largest, kernel)  # [K]
            self.smoothing.assign(1 / sizes)
            kernel, largest = kernel * sizes[:, None], largest / sizes
        levels, scale = quantized(kernel, axis=0, largest=kernels.largest_int8_weight())
        self.kernel.assign(levels)
        self.kernel_scale.assign(scale[0])
        self.bias.assign(bias)
        if self.range is not None:
            self.range.assign(largest.max())

    def call(self, x: Any) -> Any:
        x = ops.cast(x, "float32")  # [N, K]
        kernel, scale, bias = map(ops.convert_to_tensor, (self.kernel, self.kernel_scale, self.bias))
        if self.by_row:
            y = kernels.int8_product_by_row(x, kernel, scale, bias)
        else:
            x = x if self.smoothing is None else x * self.smoothing
            limit = None if self.range is None else ops.convert_to_tensor(self.range)
            y = kernels.int8_product(x, kernel, scale, bias, limit, self.activation)
        return ops.cast(y, self.compute_dtype)  # [N, M]

    def save_own_variables(self, store: Any) -> None:
        refuse_int8([self])

    def compute_output_spec(self, x: KerasTensor) -> KerasTensor:
        return KerasTensor((*x.shape[:-1], self.units), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        names = ("units", "activation", "smooth", "by_row", "fixed_range")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def refuse_int8(layers: Iterable[Any]) -> None:
    """Refuse the layers of a model in int8, which only answers."""
    for layer in layers:
        if isinstance(layer, Int8Dense):
            raise ValueError(
                "The model is in int8, so it can only answer and be exported. Use the model that it was made from. "
                f"Received: the layer {layer.name} in int8"
            )


def quantized(array: np.ndarray, axis: int, largest: int = 127) -> tuple[np.ndarray, np.ndarray]:
    """int8 numbers from -largest to largest, and their float32 scales, one for each slice along the other axis.

    >>> levels, scale = quantized(np.array([[1.0, -4.0], [0.5, 2.0]], "float32"), axis=0)
    >>> levels.tolist()
    [[127, -127], [64, 64]]
    """
    scale = np.abs(array).max(axis, keepdims=True) / np.float32(largest)
    scale = np.where(scale > 0, scale, np.float32(1))  # of a slice of zeros
    return np.rint(array / scale).astype("int8"), scale.astype("float32")


def _smoothing(inputs: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """What to divide each channel of the inputs by, from its largest input and its largest weight."""
    weights = np.abs(kernel).max(1)  # [K]
    # A channel that calibration hardly saw may be larger in a text.
    inputs, weights = (np.maximum(x, x.mean() / 100 or 1) for x in (inputs, weights))
    return inputs**_SHARE / weights ** (1 - _SHARE)
