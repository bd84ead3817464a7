"""A user's changes to the layers of a built model: kept in its config, and made again when it is loaded."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import keras


def changed_layers(model: keras.Model, but: keras.Model | None = None) -> dict[str, dict[str, Any]]:
    """By layer name: whether it is frozen, quantized, or has LoRA weights; without the layers of `but`.

    The name of a layer in a model in the model is "model/layer".
    """
    changes: dict[str, dict[str, Any]] = {}
    others = {id(layer) for layer in but.layers} if but is not None else set()
    for name, layer in _layers(model):
        if id(layer) in others:
            continue
        change: dict[str, Any] = {}
        if not layer.trainable:
            change["trainable"] = False
        if getattr(layer, "quantization_mode", None):
            change["quantize"] = {
                "mode": layer.quantization_mode,
                "config": keras.saving.serialize_keras_object(layer.quantization_config),
            }
        if getattr(layer, "lora_enabled", False):
            change["lora"] = {"rank": layer.lora_rank, "lora_alpha": layer.lora_alpha}
        if change:
            changes[name] = change
    return changes


def _layers(model: keras.Model) -> Iterator[tuple[str, Any]]:
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from ((f"{layer.name}/{name}", inner) for name, inner in _layers(layer))
        else:
            yield layer.name, layer


def restore_layers(model: keras.Model, changes: dict[str, dict[str, Any]]) -> None:
    """Make the changes that `changed_layers` found in the layers of a new model; their weights are loaded later."""
    for name, change in changes.items():
        layer = reduce(lambda model, name: model.get_layer(name), name.split("/"), model)
        if "quantize" in change:
            mode, config = change["quantize"]["mode"], change["quantize"]["config"]
            if config is None:
                layer.quantize(mode)
            else:
                layer.quantize(config=keras.saving.deserialize_keras_object(config))
        if "lora" in change:
            layer.enable_lora(**change["lora"])
        if "trainable" in change:
            layer.trainable = False
