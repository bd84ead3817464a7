"""A model's weights by name, "layer/weight", as checkpoints, exports and `resize` read and write them."""

from collections.abc import Callable
from itertools import chain, count
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_bert.layers.int8_dense import refuse_int8


class Weight(NamedTuple):
    """A variable, and what reads it in float32; a kernel with LoRA is read as the sum with its change."""

    variable: Any
    read: Callable[[], np.ndarray]


def by_layer(model: Any) -> dict[str, dict[str, Any]]:
    """The variables of a `Bert` or a model over one, by layer and name, random generators' states included."""
    return {name: _by_name(layer.variables) for name, layer in layers_of(model).items() if layer.variables}


def named_weights(model: Any) -> dict[str, Weight]:
    """Each plain weight by "layer/weight"."""
    layers = layers_of(model)
    return {f"{name}/{weight}": found for name, layer in layers.items() for weight, found in weights_of(layer).items()}


def weights_of(layer: Any) -> dict[str, Weight]:
    """The plain weights of one layer, by "weight"."""
    refuse_int8([layer])
    if mode := getattr(layer, "quantization_mode", None):
        raise ValueError(
            "The model has quantized layers, but only plain weights can be read. Use the model as it was before "
            "`quantize`, or keep it in Keras's own file: write it with model.save(path) and read it with "
            f"keras.models.load_model(path). Received: the layer {layer.name} in {mode}"
        )
    return {
        weight: Weight(variable, _reader(layer, variable))
        for weight, variable in _by_name(layer.weights).items()
        if not weight.startswith("lora_kernel")
    }


def layers_of(model: Any) -> dict[str, Any]:
    """The layers by name, with those of the encoder that a head does not use, such as the pooler.

    The name of a layer in a model in the model is "model/layer".
    """
    bert = getattr(model, "bert", model)
    found = {layer.name: layer for layer in (*bert.layers, *model.layers) if not isinstance(layer, keras.Model)}
    for inner in (layer for layer in model.layers if isinstance(layer, keras.Model)):
        known = {id(layer) for layer in found.values()}  # a model in the model can be the encoder
        layers = layers_of(inner).items()
        found |= {f"{inner.name}/{name}": layer for name, layer in layers if id(layer) not in known}
    of_layers = {id(weight) for layer in found.values() for weight in layer.weights}
    if lost := [weight.path for weight in model.weights if id(weight) not in of_layers]:
        raise ValueError(
            "The model has weights that belong to none of its layers, so they cannot be read by name. Put them into "
            f"a layer. Received: {lost[0]}, the first of {len(lost)} such weights"
        )
    return found


def _by_name(variables: list[Any]) -> dict[str, Any]:
    """The variables of a layer by name; in a layer of layers a name that occurs again is numbered."""
    found: dict[str, Any] = {}
    for variable in variables:
        numbered = (f"{variable.name}_{number}" for number in count(1))
        found[next(name for name in chain([variable.name], numbered) if name not in found)] = variable
    return found


def _reader(layer: Any, variable: Any) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        value = ops.cast(variable.value, "float32")
        if getattr(layer, "lora_enabled", False) and variable.name == "kernel":
            change = ops.matmul(layer.lora_kernel_a, layer.lora_kernel_b)
            value = value + layer.lora_alpha / layer.lora_rank * ops.cast(change, "float32")
        return np.asarray(ops.convert_to_numpy(value))

    return read
