"""Our own exports, read: the encoder or the task that a SavedModel was made of, bit for bit."""

from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.compat import read_object_graph
from keras_bert.config import BertConfig
from keras_bert.layers.dense import blank_weights
from keras_bert.storage import read_json, write_json
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import tensor_bundle
from keras_bert.weights.checkpoint import HEADS, Checkpoint, Head, TextRules
from keras_bert.weights.google import CONFIG, VOCABULARY
from keras_bert.weights.hugging_face_text import FLAGS
from keras_bert.weights.names import Shape, Stored, check_shape, encoder_shapes, finite, head_shapes
from keras_bert.weights.own import read_pooling, register_models
from keras_bert.wording import listed

EXTRA = "assets.extra"
TASK = "task.json"
_PARTS = ("encoder", "text")  # of an export; either holds the weights


def recognise(path: Path) -> bool:
    return _find(path) is not None


def _find(path: Path) -> Path | None:
    """The SavedModel at a path: itself, the newest version in it, or that of its encoder or text."""
    for folder in (path, *_newest(path), *(version for part in _PARTS for version in _newest(path / part))):
        if (folder / "saved_model.pb").is_file() and (folder / EXTRA / CONFIG).is_file():
            return folder
    return None


def _newest(path: Path) -> list[Path]:
    versions = [folder for folder in path.iterdir() if folder.name.isdecimal()] if path.is_dir() else []
    return sorted(versions, key=lambda folder: int(folder.name))[-1:]


# === A task and all its settings ===


def by_layer(model: Any) -> dict[str, dict[str, Any]]:
    """The variables of a `Bert` or a task by layer and name, with those of the encoder that a head has no use for."""
    bert = getattr(model, "bert", model)
    layers = [*bert.layers, *(layer for layer in model.layers if not isinstance(layer, keras.Model))]
    return {
        layer.name: {variable.name: variable for variable in layer.variables} for layer in layers if layer.variables
    }


def write_task(task: Any, folder: Path) -> None:
    """Write the task's config; its vocabulary is a file already."""
    config = keras.saving.serialize_keras_object(task)
    del config["config"]["bert"]["config"]["preprocessor"]["config"]["vocabulary"]
    write_json(folder / TASK, config)


def read_task(path: Path) -> Any:
    """The task of an export with every setting, or None where it is none or of a `Bert`."""
    folder = _find(path)
    if folder is None or not (folder / EXTRA / TASK).is_file():
        return None
    register_models()
    config = read_json(folder / EXTRA / TASK)
    vocabulary = Vocabulary.from_file(folder / "assets" / VOCABULARY)
    config["config"]["bert"]["config"]["preprocessor"]["config"]["vocabulary"] = list(vocabulary.tokens)
    with blank_weights():
        task = keras.saving.deserialize_keras_object(config)
    stored = _named_weights(folder / "variables" / "variables")
    for layer, variables in by_layer(task).items():
        for name, variable in variables.items():
            variable.assign(stored[f"{layer}/{name}"].read())
    return task


# === The weights alone ===


def read_checkpoint(path: Path) -> Checkpoint:
    folder = _find(path)
    assert folder is not None
    extra = folder / EXTRA
    config = BertConfig.from_dict(read_json(extra / CONFIG), source=str(extra / CONFIG))
    stored = _named_weights(folder / "variables" / "variables")
    weights = _taken(encoder_shapes(config), stored, folder)
    settings = read_json(extra / TASK).get("config", {})
    heads = {}
    for head in HEADS:
        kernel = stored.get(f"{head}/kernel")
        shapes = head_shapes(head, config, kernel.shape[1] if kernel else 1)
        if shapes.keys() & stored.keys():
            heads[head] = _head(_taken(shapes, stored, folder), settings)
    text = read_json(extra / "tokenizer_config.json")
    rules = TextRules(**{rule: text[key] for key, _, rule, _ in FLAGS})
    vocabulary = Vocabulary.from_file(folder / "assets" / VOCABULARY)
    pooling = read_pooling(extra)
    return Checkpoint(str(folder), "keras_bert export", config, weights, heads, vocabulary, rules, pooling).check()


def _head(weights: dict[str, Stored], settings: dict[str, Any]) -> Head:
    labels, config = settings.get("labels"), settings.get("mlm_config")
    return Head(
        weights,
        labels=tuple(labels) if labels else None,
        multi_label=settings.get("multi_label", False),
        config=BertConfig(**config) if config else None,
    )


def _named_weights(prefix: Path) -> dict[str, Stored]:
    """The arrays by "layer/weight": the children of the root's `named_weights`."""
    graph = read_object_graph(tensor_bundle.reader(prefix).get_tensor(tensor_bundle.GRAPH))
    arrays = tensor_bundle.stored_arrays(prefix)

    def children(node: Any) -> dict[str, Any]:
        return {child.local_name: graph.nodes[child.node_id] for child in node.children}

    def checked(name: str, stored: Stored) -> Stored:
        return Stored(stored.shape, lambda: finite(name, stored.read(), prefix))

    return {
        (full := f"{layer}/{name}"): checked(full, arrays[node.attributes[0].checkpoint_key])
        for layer, group in children(children(graph.nodes[0])["named_weights"]).items()
        for name, node in children(group).items()
    }


def _taken(shapes: dict[str, Shape], stored: dict[str, Stored], folder: Path) -> dict[str, Stored]:
    missing = [name for name in shapes if name not in stored]
    changed = sorted(name for name in stored if name.endswith(("kernel_scale", "lora_kernel_a")))
    if missing or changed:
        raise ValueError(
            "An export loads where its weights are plain. Load the model that it was made from if it was quantized "
            f"or had LoRA. Received: {folder} with {listed(changed) or 'none'}, without {listed(missing) or 'none'}"
        )
    for name, shape in shapes.items():
        check_shape(name, stored[name].shape, shape, folder)
    return {name: Stored(shape, _float32(stored[name])) for name, shape in shapes.items()}


def _float32(stored: Stored) -> Any:
    return lambda: np.asarray(stored.read(), "float32")
