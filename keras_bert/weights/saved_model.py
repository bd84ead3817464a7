"""Our own exports, read: the encoder or the task that a SavedModel was made of, bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import tensor_bundle
from keras_bert.weights.checkpoint import HEADS, Checkpoint, Head, TextRules
from keras_bert.weights.folder import read_json
from keras_bert.weights.google import CONFIG, VOCABULARY
from keras_bert.weights.hugging_face_text import FLAGS
from keras_bert.weights.names import Shape, Stored, check_shape, encoder_shapes, head_shapes, listed

EXTRA = "assets.extra"
LABELS = "labels.json"
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


def read_checkpoint(path: Path) -> Checkpoint:
    folder = _find(path)
    assert folder is not None
    extra = folder / EXTRA
    config = BertConfig.from_dict(read_json(extra / CONFIG), source=str(extra / CONFIG))
    stored = _named_weights(folder / "variables" / "variables")
    weights = _taken(encoder_shapes(config), stored, folder)
    labels = read_json(extra / LABELS)
    heads = {}
    for head in HEADS:
        kernel = stored.get(f"{head}/kernel")
        shapes = head_shapes(head, config, kernel.shape[1] if kernel else 1)
        if shapes.keys() & stored.keys():
            heads[head] = Head(_taken(shapes, stored, folder), tuple(labels.get(head) or ()) or None)
    text = read_json(extra / "tokenizer_config.json")
    rules = TextRules(**{rule: text[key] for key, _, rule, _ in FLAGS})
    vocabulary = Vocabulary.from_file(folder / "assets" / VOCABULARY)
    return Checkpoint(str(folder), "keras_bert export", config, weights, heads, vocabulary, rules).check()


def _named_weights(prefix: Path) -> dict[str, Stored]:
    """The arrays by "layer/weight": the children of `named_weights`, at the root and in its `mlm`."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(tensor_bundle.reader(prefix).get_tensor(tensor_bundle.GRAPH))
    arrays = tensor_bundle.stored_arrays(prefix)

    def children(node: Any) -> dict[str, Any]:
        return {child.local_name: graph.nodes[child.node_id] for child in node.children}

    root = graph.nodes[0]
    named = {}
    for owner in (root, children(root).get("mlm")):
        for layer, group in children(children(owner)["named_weights"]).items() if owner else ():
            for weight, node in children(group).items():
                named[f"{layer}/{weight}"] = arrays[node.attributes[0].checkpoint_key]
    return named


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
