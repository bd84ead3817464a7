"""Our own exports, read bit for bit: the encoder or the task that a SavedModel was made from."""

import dataclasses
import math
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.config import CONFIG, BertConfig
from keras_bert.layers.dense import blank_weights
from keras_bert.layers.int8_dense import int8_blocks
from keras_bert.named_weights import by_layer
from keras_bert.storage import read_json, write_json
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import tensor_bundle
from keras_bert.weights.checkpoint import (
    OF_ITS_CLASS,
    ONLY_OURS,
    Checkpoint,
    Head,
    changed_text_settings,
    text_settings_of,
)
from keras_bert.weights.export_folder import EXTRA, TASK, saved_model_at
from keras_bert.weights.keras_file import rebuilding
from keras_bert.weights.our_folder import read_pooling, write_pooling
from keras_bert.weights.tables import HEADS, Row, Shape, Stored, Table, encoder_shapes, finite, head_shapes, read_all
from keras_bert.weights.tokenizer_files import TOKENIZER, VOCABULARY, rules_in, tokenizer_config
from keras_bert.wording import listed

# === A task with all its settings ===


def write_settings(model: Any, folder: Path, seq_length: int | None = None) -> None:
    """Write what `keras_bert.load` and a task's `load` read in addition to the weights and the vocabulary.

    seq_length: the length of the loaded model's rows, if it differs from that of this model.
    """
    folder.mkdir()
    bert = getattr(model, "bert", model)
    bert.config.to_json(folder / CONFIG)
    text = tokenizer_config(TextRules.of(bert.preprocessor), bert.config.max_position_embeddings)
    write_json(folder / TOKENIZER, text | text_settings_of(bert.preprocessor))
    pooling = bert.pooling
    if pooling is not None and seq_length is not None:
        pooling = dataclasses.replace(pooling, max_length=seq_length)
    write_pooling(pooling, folder)
    if model is not bert:
        config = keras.saving.serialize_keras_object(model)
        preprocessor = config["config"]["bert"]["config"]["preprocessor"]["config"]
        del preprocessor["vocabulary"]
        if seq_length is not None:
            preprocessor["seq_length"] = seq_length
        write_json(folder / TASK, config)


def read_task(path: Path) -> Any:
    """The task of an export with all its settings; None where the path is no export, or one of a `Bert`."""
    folder = saved_model_at(path)
    if folder is None or not (folder / EXTRA / TASK).is_file():
        return None
    config = read_json(folder / EXTRA / TASK)
    vocabulary = Vocabulary.from_file(folder / "assets" / VOCABULARY)
    stored = _named_weights(folder)
    with rebuilding(folder):
        bert = config["config"]["bert"]["config"]
        shapes = encoder_shapes(BertConfig(**bert["config"]))
    for name, shape in shapes.items():
        found = stored[name].shape if name in stored else (0,)
        if math.prod(shape) > 2 * math.prod(found):  # int4 has two in a byte
            raise _other_sizes(folder, name, shape, found)  # before anything of this size is built
    with rebuilding(folder), blank_weights(), _blocks_of(stored):
        bert["preprocessor"]["config"]["vocabulary"] = list(vocabulary.tokens)
        task = keras.saving.deserialize_keras_object(config)
    for layer, variables in by_layer(task).items():
        for name, variable in variables.items():
            if (entry := stored.get(f"{layer}/{name}")) is None:
                raise ValueError(
                    f"{folder} has no weights for the layer {layer!r} of its task. Give each layer a name in the "
                    f"class of the task, and export it again. Received: {layer}/{name}"
                )
            if entry.shape != tuple(variable.shape):
                raise _other_sizes(folder, f"{layer}/{name}", tuple(variable.shape), entry.shape)
            variable.assign(finite(name, entry.read(), folder))
    return task


def _other_sizes(folder: Path, name: str, shape: Shape, found: Shape) -> ValueError:
    return ValueError(
        f"{folder} is damaged: its task and its weights are of different sizes. Export the task again. "
        f"Received: {name} of shape {list(shape)} in {TASK}, {list(found)} as stored"
    )


def _blocks_of(stored: dict[str, Stored]) -> AbstractContextManager[None]:
    """A block in which the products of the encoder are made as they were stored, in int8 or not."""
    first = "layer_0_attention_qkv"
    if f"{first}/smoothing" not in stored:
        return nullcontext()
    return int8_blocks(fixed_ranges=f"{first}/range" in stored)


# === Only the weights ===


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint at a path; None where it is in another format."""
    folder = saved_model_at(path)
    if folder is None:
        return None
    extra = folder / EXTRA
    config = BertConfig.from_json(extra / CONFIG)
    stored = _named_weights(folder)
    if changed := sorted(name for name in stored if name.endswith(("kernel_scale", "lora_kernel_a"))):
        raise ValueError(
            f"{folder} was exported in int8, or from a model with LoRA or quantized layers, so it has no plain "
            "weights. Load the model that was exported. If that is a task, its class can load the export, as in "
            f"TextClassifier.load. Received: {listed(changed)}"
        )
    encoder, heads = _table(encoder_shapes(config)), {head: _table(head_shapes(head, config)) for head in HEADS}
    known = {row.ours for table in (encoder, *heads.values()) for row in table}
    # In float32, and without the states of random generators.
    stored = {name: Stored(entry.shape, partial(_float32, entry)) for name, entry in stored.items() if name in known}
    kernels = {head: stored[f"{head}/kernel"].shape for head in HEADS if f"{head}/kernel" in stored}
    # Heads that read more than a vector of the encoder.
    of_class = [head for head, shape in kernels.items() if shape[:1] != (config.hidden_size,)]
    stored = {name: entry for name, entry in stored.items() if name.split("/")[0] not in of_class}
    weights, found, left_out = read_all(encoder, heads, stored, config, folder)
    left_out |= {f"head {head}": OF_ITS_CLASS for head in of_class}
    task = read_json(extra / TASK)
    settings, kind = task.get("config", {}), keras.saving.get_registered_object(str(task.get("registered_name")))
    usual = {name: getattr(kind, name) for name in getattr(kind, "own_fields", ())}
    left_out |= {f"setting {name}": ONLY_OURS for name in usual if settings.get(name, usual[name]) != usual[name]}
    labels, head_config = settings.get("labels"), settings.get("mlm_config")
    text = read_json(extra / TOKENIZER)
    return Checkpoint(
        str(folder),
        "keras_bert export",
        config,
        weights,
        heads={
            name: Head(
                arrays,
                labels=tuple(labels) if labels else None,
                multi_label=settings.get("multi_label", False),
                config=BertConfig(**head_config) if head_config else None,
            )
            for name, arrays in found.items()
        },
        vocabulary=Vocabulary.from_file(folder / "assets" / VOCABULARY),
        rules=rules_in(text),
        pooling=read_pooling(extra),
        left_out=left_out,
        text_settings=changed_text_settings(text),
    )


def _float32(stored: Stored) -> np.ndarray:
    return np.asarray(stored.read(), "float32")


def _table(names: Any) -> Table:
    return tuple(Row(name, name) for name in names)


def _named_weights(folder: Path) -> dict[str, Stored]:
    """The arrays by "layer/weight": the children of the root's `named_weights`."""
    prefix = folder / "variables" / "variables"
    graph = tensor_bundle.object_graph(prefix)
    arrays = tensor_bundle.stored_arrays(prefix)

    def children(node: Any) -> dict[str, Any]:
        return {child.local_name: graph.nodes[child.node_id] for child in node.children}

    return {
        f"{layer}/{name}": arrays[node.attributes[0].checkpoint_key]
        for layer, group in children(children(graph.nodes[0])["named_weights"]).items()
        for name, node in children(group).items()
    }
