"""Our own folder {bert_config.json, vocab.txt, tokenizer_config.json, model.weights.h5}, and .keras files."""

import dataclasses
import zipfile
from pathlib import Path
from typing import Any

import keras

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.storage import new_folder, only_file, read_json, write_json
from keras_bert.vectors import Pooling
from keras_bert.weights import keras_weights
from keras_bert.weights.checkpoint import HEADS, Checkpoint, Head
from keras_bert.weights.google import CONFIG, VOCABULARY, text_of
from keras_bert.weights.hugging_face_text import tokenizer_config
from keras_bert.weights.names import (
    Row,
    Stored,
    Table,
    encoder_shapes,
    finite,
    head_shapes,
    read,
    refuse_left_over,
    shapes_in,
    theirs,
)

WEIGHTS = "model.weights.h5"
_PARTS = (("kernel", "0"), ("bias", "1"), ("gamma", "0"), ("beta", "1"), ("embeddings", "0"))
_HEADS, _POOLING = "heads.json", "pooling.json"


def _table(names: Any) -> Table:
    """Keras numbers the weights of a layer in the order they were made."""
    numbers = dict(_PARTS)
    return tuple(Row(f"{name.split('/')[0]}/{_number(name, numbers)}", name) for name in names)


def _number(name: str, numbers: dict[str, str]) -> str:
    return "0" if name == "mlm_bias/bias" else numbers[name.split("/")[1]]


def recognise(path: Path) -> bool:
    if path.is_dir():
        return ((path / CONFIG).is_file() and (path / WEIGHTS).is_file()) or only_file(path, "*.keras") is not None
    return path.suffix == ".keras" and path.is_file()


def keras_file(path: Path) -> Path | None:
    """The .keras file that a path is or holds, unless it holds our weights."""
    if path.is_dir():
        return None if (path / WEIGHTS).is_file() else only_file(path, "*.keras")
    return path if path.suffix == ".keras" and path.is_file() else None


def read_checkpoint(path: Path) -> Checkpoint:
    """Read our folder or file; weights of heads are those of the layers that have a head's name."""
    if file := keras_file(path):
        return _read_keras(file)
    config = BertConfig.from_dict(read_json(path / CONFIG), source=str(path / CONFIG))
    stored = _by_layer(path / WEIGHTS)
    left_out: dict[str, str] = {}
    table = _table(encoder_shapes(config))
    weights = read(table, stored, shapes_in(table, stored, config, left_out), config, path / WEIGHTS)
    used = theirs(table, config)
    settings = read_json(path / _HEADS)
    heads = {}
    for head in HEADS:
        outputs = stored[f"{head}/0"].shape[-1] if f"{head}/0" in stored else 1
        shapes = head_shapes(head, config, outputs)
        table = _table(shapes)
        if theirs(table, config) & set(stored):
            given = settings.get(head, {})
            labels = tuple(given["labels"]) if given.get("labels") else None
            arrays = read(table, stored, shapes, config, path / WEIGHTS)
            heads[head] = Head(arrays, labels, given.get("multi_label", False))
            used |= theirs(table, config)
    refuse_left_over(set(stored) - used, path / WEIGHTS)
    vocabulary, rules = text_of(path)
    checkpoint = Checkpoint(
        str(path), "keras_bert folder", config, weights, heads, vocabulary, rules, read_pooling(path), left_out
    )
    return checkpoint.check()


def read_pooling(folder: Path) -> Pooling | None:
    """How `embed` makes a vector, None where no file says it."""
    settings = read_json(folder / _POOLING)
    if not settings:
        return None
    names = [field.name for field in dataclasses.fields(Pooling)]
    if set(settings) != set(names):
        raise ValueError(f"{_POOLING} must have {', '.join(names)}. Get it again. Received: {settings} in {folder}")
    return Pooling(**settings)


def _by_layer(path: Path) -> dict[str, Stored]:
    """The file's arrays by the name of their layer and their number, such as pooler/0."""
    names = keras_weights.layer_names(path)
    stored = {}
    for name, entry in keras_weights.stored_weights(path).items():
        group, _, number = name.rpartition("/vars/")
        stored[f"{names.get(group, group)}/{number}"] = entry
    return stored


def _read_keras(path: Path) -> Checkpoint:
    checkpoint = Checkpoint.of(read_keras(path))
    checkpoint.source, checkpoint.format = str(path), ".keras file"
    return checkpoint


def read_keras(path: Path, compile: bool = True) -> Any:
    """The `Bert` or the task in a .keras file, compiled as it was saved if wanted."""
    register_models()
    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("no zip file")
        model = keras.models.load_model(path, compile=compile)
    except zipfile.BadZipFile as error:
        raise ValueError(f"A .keras file must be whole. Save or get it again. Received: {path}: {error}") from None
    if not isinstance(getattr(model, "bert", model), Bert):
        raise ValueError(
            f"The file must hold a Bert or a task of keras_bert. Received: {type(model).__name__} in {path}"
        )
    for variable in model.weights:
        finite(variable.path, keras.ops.convert_to_numpy(variable), path)
    return model


def register_models() -> None:
    """Import the classes of all that we save, for Keras to find: on the command line nothing else has."""
    import keras_bert.pretraining.pretrainer  # noqa: F401


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write our folder; Keras's own `load_weights` reads its weights too."""
    config = checkpoint.config
    if odd := [name for name, head in checkpoint.heads.items() if head.config not in (None, config)]:
        raise ValueError(
            f"A head must be computed like its encoder. Leave out: {', '.join(odd)}. Received: {checkpoint.source}"
        )
    arrays = dict(checkpoint.weights)
    for head in checkpoint.heads.values():
        arrays |= head.weights
    layers: dict[str, list[Stored]] = {}
    for name in sorted(arrays, key=lambda name: (name.split("/")[0], _number(name, dict(_PARTS)))):
        layers.setdefault(name.split("/")[0], []).append(arrays[name])
    groups = _groups(config)
    settings = {
        name: {"labels": list(head.labels or ()), "multi_label": head.multi_label}
        for name, head in checkpoint.heads.items()
        if head.labels or head.multi_label
    }
    with new_folder(folder) as partial:
        config.to_json(partial / CONFIG)
        entries = ((groups.get(name, f"heads/{name}"), name, stored) for name, stored in layers.items())
        keras_weights.write_weights(partial / WEIGHTS, entries)
        if settings:
            write_json(partial / _HEADS, settings)
        write_pooling(checkpoint.pooling, partial)
        if checkpoint.vocabulary is not None:
            checkpoint.vocabulary.save(partial / VOCABULARY)
            write_json(
                partial / "tokenizer_config.json", tokenizer_config(checkpoint.rules, config.max_position_embeddings)
            )


def write_pooling(pooling: Pooling | None, folder: Path) -> None:
    if pooling is not None:
        write_json(folder / _POOLING, dataclasses.asdict(pooling))


def _groups(config: BertConfig) -> dict[str, str]:
    """The group of each layer in a file of Keras's, which counts the layers of a class in the order of the model."""
    kinds = {
        "word_embeddings": "embedding",
        "position_embeddings": "position_embedding",
        "type_embeddings": "embedding_1",
    }
    groups = {name: f"layers/{kind}" for name, kind in kinds.items()}
    layers = {"dense": [], "add_norm": ["embeddings_norm"]}  # type: dict[str, list[str]]
    for i in range(config.num_hidden_layers):
        layers["dense"] += [
            f"layer_{i}_{name}" for name in ("attention_qkv", "attention_output", "intermediate", "output")
        ]
        layers["add_norm"] += [f"layer_{i}_attention_norm", f"layer_{i}_output_norm"]
    layers["dense"].append("pooler")
    for kind, names in layers.items():
        groups |= {name: f"layers/{kind}_{n}" if n else f"layers/{kind}" for n, name in enumerate(names)}
    return groups
