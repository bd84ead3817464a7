"""A model's weights by name, "layer/weight", as checkpoints, exports and `resize` read and write them."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.lazy import tf

_SLICE = 8 << 20  # bytes


def by_layer(model: Any) -> dict[str, dict[str, Any]]:
    """The variables of a `Bert` or a model over one, by layer and name, random generators' states included."""
    return {
        name: {variable.name: variable for variable in layer.variables}
        for name, layer in _layers(model).items()
        if layer.variables
    }


def named_weights(model: Any) -> dict[str, tuple[Any, Callable[[], np.ndarray]]]:
    """Each plain weight and what reads it, by "layer/weight"; a kernel with LoRA is read as the sum with its change."""
    layers = _layers(model)
    if quantized := [name for name, layer in layers.items() if getattr(layer, "quantization_mode", None)]:
        raise ValueError(
            "The model has quantized layers, but a checkpoint holds only plain weights. Keep the model in Keras's own "
            "file: write it with model.save(path) and read it with keras.models.load_model(path). Received: "
            f"{quantized[0]}, the first of {len(quantized)} quantized layers"
        )
    return {
        f"{name}/{variable.name}": (variable, _reader(layer, variable))
        for name, layer in layers.items()
        for variable in layer.weights
        if not variable.name.startswith("lora_kernel")
    }


def _layers(model: Any) -> dict[str, Any]:
    """The layers by name, with those of the encoder that a head does not use, such as the pooler."""
    bert = getattr(model, "bert", model)
    layers = (layer for layer in (*bert.layers, *model.layers) if not isinstance(layer, keras.Model))
    return {layer.name: layer for layer in layers}


def _reader(layer: Any, variable: Any) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        value = ops.cast(variable.value, "float32")
        if getattr(layer, "lora_enabled", False) and variable.name == "kernel":
            change = ops.matmul(layer.lora_kernel_a, layer.lora_kernel_b)
            value = value + layer.lora_alpha / layer.lora_rank * ops.cast(change, "float32")
        return np.asarray(ops.convert_to_numpy(value))

    return read


def assign(variable: Any, x: np.ndarray) -> None:
    """Put an array into a variable; on TensorFlow a large one in slices, since it would hold two more copies of it."""
    if keras.backend.backend() == "tensorflow" and x.ndim == 2 and x.nbytes > _SLICE:
        value = variable.value
        if tuple(x.shape) == tuple(value.shape) and not isinstance(value, tf.distribute.DistributedValues):
            rows = max(1, _SLICE * len(x) // x.nbytes)
            for start in range(0, len(x), rows):
                part = x[start : start + rows]
                value[start : start + len(part)].assign(ops.convert_to_tensor(part, value.dtype.name))
            return
    variable.assign(x)
