"""Our own folder: bert_config.json, model.weights.h5, vocab.txt, tokenizer_config.json, heads.json, pooling.json."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_bert.config import CONFIG, BertConfig
from keras_bert.storage import new_file, read_json, write_json
from keras_bert.vectors import Pooling
from keras_bert.weights import weights_h5
from keras_bert.weights.checkpoint import Checkpoint, Head, changed_text_settings, refuse_lost_heads
from keras_bert.weights.tables import HEADS, Row, Stored, Table, encoder_shapes, head_shapes, read_all
from keras_bert.weights.tokenizer_files import TOKENIZER, read_tokenizer
from keras_bert.weights.weights_h5 import WEIGHTS

_NUMBERS = {"kernel": "0", "bias": "1", "gamma": "0", "beta": "1", "embeddings": "0"}
_HEADS, _POOLING = "heads.json", "pooling.json"


def _table(names: Iterable[str]) -> Table:
    """Keras numbers the weights of a layer in the order they were made."""
    return tuple(Row(_numbered(name), name) for name in names)


def _numbered(name: str) -> str:
    layer, weight = name.split("/")
    return f"{layer}/{'0' if layer == 'mlm_bias' else _NUMBERS[weight]}"


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint at a path; None where it is in another format."""
    if path.name == WEIGHTS and (path.parent / CONFIG).is_file():
        path = path.parent
    if not (path / CONFIG).is_file() or not (path / WEIGHTS).is_file():
        return None
    config = BertConfig.from_json(path / CONFIG)
    heads = {head: _table(head_shapes(head, config)) for head in HEADS}
    stored = _by_layer(path / WEIGHTS)
    weights, found, left_out = read_all(_table(encoder_shapes(config)), heads, stored, config, path / WEIGHTS)
    settings = read_json(path / _HEADS)
    vocabulary, rules = read_tokenizer(path)
    checkpoint = Checkpoint(
        str(path), "keras_bert folder", config, weights, vocabulary=vocabulary, rules=rules, left_out=left_out
    )
    for head, arrays in found.items():
        checkpoint.heads[head] = Head(arrays, *_labels(settings.get(head, {}), path / _HEADS))
    checkpoint.pooling = read_pooling(path)
    checkpoint.text_settings = changed_text_settings(read_json(path / TOKENIZER))
    return checkpoint


def _labels(settings: Any, path: Path) -> tuple[tuple[str, ...] | None, bool]:
    """The labels of a head, and whether several may apply to one text."""
    given = settings if isinstance(settings, dict) else {"labels": settings}
    labels, multi_label = given.get("labels") or [], given.get("multi_label", False)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels) or multi_label not in (0, 1):
        raise ValueError(
            f"{path} must hold an object for each head, with `labels` (a list of strings) and `multi_label` (true or "
            f"false). Save or download the model again. Received: {settings!r}"
        )
    return tuple(labels) or None, bool(multi_label)


def _by_layer(path: Path) -> dict[str, Stored]:
    """The file's arrays by the name of their layer and their number, such as pooler/0."""
    names = weights_h5.layer_names(path)
    stored = {}
    for name, entry in weights_h5.stored_weights(path).items():
        group, _, number = name.rpartition("/vars/")
        stored[f"{names.get(group, group)}/{number}"] = entry
    return stored


def read_pooling(folder: Path) -> Pooling | None:
    """How `embed` makes a vector; None where no file says it."""
    settings = read_json(folder / _POOLING)
    if not settings:
        return None
    names = [field.name for field in dataclasses.fields(Pooling)]
    if set(settings) != set(names):
        raise ValueError(
            f"{folder / _POOLING} must have exactly the keys {', '.join(names)}. Save or download it again. "
            f"Received: {settings}"
        )
    return Pooling(**settings)


# === Writing ===


def cannot_hold(checkpoint: Checkpoint) -> dict[str, str]:
    return checkpoint.heads_unlike_encoder()


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write our files into a folder, the weights last: with them, it is complete. Keras can load these weights too."""
    refuse_lost_heads(checkpoint, cannot_hold(checkpoint))
    arrays = dict(checkpoint.weights)
    for head in checkpoint.heads.values():
        arrays |= head.weights
    layers: dict[str, list[Stored]] = {}
    for name in sorted(arrays, key=_numbered):
        layers.setdefault(name.split("/")[0], []).append(arrays[name])
    groups = _groups(checkpoint.config)
    settings = {
        name: {"labels": list(head.labels or ()), "multi_label": head.multi_label}
        for name, head in checkpoint.heads.items()
        if head.labels or head.multi_label
    }
    folder.mkdir(parents=True, exist_ok=True)
    if settings:
        write_json(folder / _HEADS, settings)
    write_pooling(checkpoint.pooling, folder)
    checkpoint.config.to_json(folder / CONFIG)
    checkpoint.write_tokenizer(folder, **checkpoint.text_settings)
    entries = ((groups.get(name, f"heads/{name}"), name, stored) for name, stored in layers.items())
    with new_file(folder / WEIGHTS) as temporary:
        weights_h5.write_weights(Path(temporary), entries)


def write_pooling(pooling: Pooling | None, folder: Path) -> None:
    if pooling is not None:
        write_json(folder / _POOLING, dataclasses.asdict(pooling))


def _groups(config: BertConfig) -> dict[str, str]:
    """The group of each layer in Keras's file, where the layers of a class are counted in the order of the model."""
    groups = {
        "word_embeddings": "layers/embedding",
        "position_embeddings": "layers/position_embedding",
        "type_embeddings": "layers/embedding_1",
    }
    dense, norms = [], ["embeddings_norm"]
    for i in range(config.num_hidden_layers):
        dense += [f"layer_{i}_{name}" for name in ("attention_qkv", "attention_output", "intermediate", "output")]
        norms += [f"layer_{i}_attention_norm", f"layer_{i}_output_norm"]
    for kind, names in (("dense", [*dense, "pooler"]), ("add_norm", norms)):
        groups |= {name: f"layers/{kind}_{n}" if n else f"layers/{kind}" for n, name in enumerate(names)}
    return groups
