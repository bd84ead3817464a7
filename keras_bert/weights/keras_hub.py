"""KerasHub's BERT presets and live `BertBackbone` objects, read and written."""

import dataclasses
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.config import BertConfig
from keras_bert.storage import new_folder, read_json, write_json
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import keras_weights
from keras_bert.weights.checkpoint import Checkpoint, Head, TextRules
from keras_bert.weights.names import (
    Row,
    Stored,
    Table,
    encoder_shapes,
    head_shapes,
    read,
    refuse_left_over,
    theirs,
    write,
)
from keras_bert.weights.rules import keeps_accents, rules_of


def _pair(theirs: str, ours: str, names: tuple[str, str], kernel: dict[str, Any], bias: dict[str, Any]) -> Table:
    return Row(f"{theirs}/vars/0", f"{ours}/{names[0]}", **kernel), Row(
        f"{theirs}/vars/1", f"{ours}/{names[1]}", **bias
    )


def _dense(theirs: str, ours: str, kernel: dict[str, Any] | None = None, bias: dict[str, Any] | None = None) -> Table:
    return _pair(theirs, ours, ("kernel", "bias"), kernel or {}, bias or {})


def _norm(theirs: str, ours: str) -> Table:
    return _pair(theirs, ours, ("gamma", "beta"), {}, {})


def _heads(theirs: str, part: int) -> Table:
    how: dict[str, Any] = {"part": part, "heads": -1}
    return _dense(f"{_ATTENTION}/{theirs}", "layer_{i}_attention_qkv", how, how)


_LAYER = "layers/transformer_encoder{_i}"
_ATTENTION = f"{_LAYER}/_self_attention_layer"
ENCODER: Table = (
    Row("layers/reversible_embedding/vars/0", "word_embeddings/embeddings"),
    Row("layers/position_embedding/vars/0", "position_embeddings/embeddings"),
    Row("layers/embedding/vars/0", "type_embeddings/embeddings"),
    *_norm("layers/layer_normalization", "embeddings_norm"),
    *_heads("query_dense", 0),
    *_heads("key_dense", 1),
    *_heads("value_dense", 2),
    *_dense(f"{_ATTENTION}/output_dense", "layer_{i}_attention_output", {"heads": 0}),
    *_norm(f"{_LAYER}/_self_attention_layer_norm", "layer_{i}_attention_norm"),
    *_dense(f"{_LAYER}/_feedforward_intermediate_dense", "layer_{i}_intermediate"),
    *_dense(f"{_LAYER}/_feedforward_output_dense", "layer_{i}_output"),
    *_norm(f"{_LAYER}/_feedforward_layer_norm", "layer_{i}_output_norm"),
    *_dense("layers/dense", "pooler"),
)
HEADS: dict[str, Table] = {  # of task.weights.h5
    "mlm": (
        *_dense("layers/masked_lm_head/_intermediate_dense", "mlm_dense"),
        *_norm("layers/masked_lm_head/_intermediate_layer_norm", "mlm_norm"),
        Row("layers/masked_lm_head/vars/0", "mlm_bias/bias"),
    ),
    "classifier": _dense("layers/dense", "classifier"),
}
TASKS = {"BertMaskedLM": "mlm", "BertTextClassifier": "classifier", "BertClassifier": "classifier"}
LIVE = {  # the first two parts of a file's path, and the layer of a live backbone
    "layers/reversible_embedding": "token_embedding",
    "layers/position_embedding": "position_embedding",
    "layers/embedding": "segment_embedding",
    "layers/layer_normalization": "embeddings_layer_norm",
    "layers/dense": "pooled_dense",
    "layers/transformer_encoder{_i}": "transformer_layer_{i}",
}
CONFIG = {  # theirs, ours
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "dropout": "hidden_dropout_prob",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
WEIGHTS, VOCABULARY = "model.weights.h5", Path("assets", "tokenizer", "vocabulary.txt")
_MAKER = "keras_bert"


def recognise(path: Path) -> bool:
    return path.is_dir() and str(read_json(path / "config.json").get("class_name", "")).endswith("Backbone")


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a preset folder, with the head of a task that was saved with it."""
    data = read_json(folder / "config.json")
    if data["class_name"] != "BertBackbone":
        raise ValueError(
            f"The preset must be of a BERT. Load it with keras_hub. Received: {data['class_name']} in {folder}"
        )
    config = _config(data.get("config") or {}, folder)
    if not (folder / WEIGHTS).is_file():
        raise FileNotFoundError(f"A preset needs {WEIGHTS}. Save it with save_to_preset. Received: {folder}")
    stored = keras_weights.stored_weights(folder / WEIGHTS)
    weights = read(ENCODER, stored, encoder_shapes(config), config, folder / WEIGHTS)
    refuse_left_over(set(stored) - theirs(ENCODER, config), folder / WEIGHTS)
    vocabulary = Vocabulary.from_file(folder / VOCABULARY) if (folder / VOCABULARY).is_file() else None
    settings = read_json(folder / "tokenizer.json").get("config")
    if vocabulary is not None and not isinstance(settings, dict):  # nothing says how text was cut
        rules = rules_of(vocabulary, str(folder))
    else:
        rules = _rules(settings or {}, vocabulary, folder)
    heads = _task(folder, config)
    return Checkpoint(str(folder), "KerasHub preset", config, weights, heads, vocabulary, rules).check()


def _config(data: dict[str, Any], folder: Any) -> BertConfig:
    if missing := [key for key in CONFIG if key not in data]:
        raise ValueError(f"The config must have {', '.join(missing)}. Get it again. Received: {folder}")
    numbers = {ours: data[name] for name, ours in CONFIG.items()}
    return BertConfig(**numbers, attention_probs_dropout_prob=data["dropout"])


def _rules(settings: dict[str, Any], vocabulary: Vocabulary | None, folder: Path) -> TextRules:
    if settings.get("split", True) is False or settings.get("suffix_indicator", "##") != "##":
        raise ValueError(
            f"BERT's tokenizer splits words and marks pieces with ##. Received: {folder / 'tokenizer.json'}"
        )
    lowercase, strip = settings.get("lowercase", False), settings.get("strip_accents", False)
    meant = read_json(folder / "metadata.json").get("written_by") == _MAKER
    # KerasHub writes False for Google's uncased vocabularies too, which were learnt without accents.
    if lowercase and not strip and vocabulary is not None and not meant:
        strip = not keeps_accents(vocabulary)
    return TextRules(lowercase, None if strip == lowercase else strip, settings.get("split_on_cjk", True))


def _task(folder: Path, config: BertConfig) -> dict[str, Head]:
    name = TASKS.get(read_json(folder / "task.json").get("class_name", ""))
    path = folder / "task.weights.h5"
    if name is None or not path.is_file():
        return {}
    stored = keras_weights.stored_weights(path)
    kernel = stored.get(HEADS[name][0].theirs)
    shapes = head_shapes(name, config, kernel.shape[1] if kernel else 1)
    weights = read(HEADS[name], stored, shapes, config, path)
    refuse_left_over(set(stored) - theirs(HEADS[name], config), path)
    # KerasHub's MLM head is computed otherwise than its encoder.
    own = dataclasses.replace(config, hidden_act="gelu_erf", layer_norm_eps=1e-5) if name == "mlm" else None
    return {name: Head(weights, config=own)}


# === Live objects ===


def is_backbone(source: Any) -> bool:
    return isinstance(source, keras.Model) and type(source).__name__ == "BertBackbone"


def from_backbone(backbone: Any) -> Checkpoint:
    """The checkpoint of a live `keras_hub.models.BertBackbone`."""
    config = _config(backbone.get_config(), backbone.name)
    stored = {name: _stored(_variable(backbone, name)) for name in theirs(ENCODER, config)}
    return Checkpoint(
        backbone.name,
        "KerasHub BertBackbone",
        config,
        read(ENCODER, stored, encoder_shapes(config), config, backbone.name),
    )


def to_backbone(checkpoint: Checkpoint, **kwargs: Any) -> Any:
    """A live `keras_hub.models.BertBackbone` with the checkpoint's encoder."""
    try:
        import keras_hub
    except ImportError:
        raise ImportError("KerasHub is not installed. Run: pip install 'keras3-bert[keras-nlp]'") from None
    backbone = keras_hub.models.BertBackbone(**_their_config(checkpoint.config), **kwargs)
    for name, entry in write(ENCODER, checkpoint.weights, checkpoint.config).items():
        _variable(backbone, name).assign(entry.read())
    return backbone


def _variable(backbone: Any, name: str) -> Any:
    """The variable of a live backbone that a file has under `name`: Keras names groups by attributes."""
    first, layer, *attributes, _, index = name.split("/")
    found = backbone.get_layer(_live_names(backbone.num_layers)[f"{first}/{layer}"])
    for attribute in attributes:
        found = getattr(found, attribute)
    return found.weights[int(index)]


def _live_names(layers: int) -> dict[str, str]:
    names = {}
    for group, live in LIVE.items():
        for i in range(layers if "{i}" in live else 1):
            names[group.replace("{_i}", f"_{i}" if i else "")] = live.replace("{i}", str(i))
    return names


def _stored(variable: Any) -> Stored:
    def load() -> np.ndarray:
        return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32")))

    return Stored(tuple(variable.shape), load)


# === Writing ===


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a preset that keras_hub loads; needs no keras_hub itself. Heads are left out: their form differs there."""
    if checkpoint.heads:
        raise ValueError(
            "A KerasHub preset is written of the encoder alone; its heads are computed otherwise. Leave heads out. "
            f"Received: heads {', '.join(checkpoint.heads)}"
        )
    config = checkpoint.config
    _their_config(config)
    if "pooler/kernel" not in checkpoint.weights:
        raise ValueError(
            f"KerasHub's BERT has a pooler. Write another format. Received: {checkpoint.source} without one"
        )
    arrays = write(ENCODER, checkpoint.weights, config)
    groups: dict[str, list[Stored]] = {}
    for name in sorted(arrays):
        groups.setdefault(name.rsplit("/vars/", 1)[0], []).append(arrays[name])
    live = _live_names(config.num_hidden_layers)
    with new_folder(folder) as partial_folder:
        keras_weights.write_weights(
            partial_folder / WEIGHTS,
            ((group, live.get(group, group.split("/")[-1]), entries) for group, entries in groups.items()),
        )
        write_json(partial_folder / "config.json", _object("bert_backbone", "BertBackbone", _their_config(config)))
        count = sum(int(np.prod(entry.shape)) for entry in checkpoint.weights.values())
        versions = {"keras_version": keras.__version__, "keras_hub_version": "0.32.0", "parameter_count": count}
        write_json(partial_folder / "metadata.json", {**versions, "written_by": _MAKER})
        if checkpoint.vocabulary is not None:
            _write_tokenizer(checkpoint, partial_folder)


def _write_tokenizer(checkpoint: Checkpoint, folder: Path) -> None:
    (folder / VOCABULARY).parent.mkdir(parents=True)
    assert checkpoint.vocabulary is not None
    checkpoint.vocabulary.save(folder / VOCABULARY)
    rules = checkpoint.rules
    strip = rules.lowercase if rules.strip_accents is None else rules.strip_accents
    settings = {
        "config_file": "tokenizer.json",
        "lowercase": rules.lowercase,
        "strip_accents": strip,
        "split": True,
        "split_on_cjk": rules.split_cjk,
    }
    write_json(folder / "tokenizer.json", _object("bert_tokenizer", "BertTokenizer", settings))


def _object(module: str, name: str, config: dict[str, Any]) -> dict[str, Any]:
    path = f"keras_hub.src.models.bert.{module}"
    return {"module": path, "class_name": name, "config": config, "registered_name": f"keras_hub>{name}"}


def _their_config(config: BertConfig) -> dict[str, Any]:
    ours = {
        "hidden_act": (config.hidden_act, "gelu_tanh"),
        "layer_norm_eps": (config.layer_norm_eps, 1e-12),
        "attention_probs_dropout_prob": (config.attention_probs_dropout_prob, config.hidden_dropout_prob),
    }
    if odd := [f"{name}={value}" for name, (value, fixed) in ours.items() if value != fixed]:
        raise ValueError(
            "KerasHub's BERT has the tanh GELU, layer_norm_eps 1e-12 and one dropout. Write another format. "
            f"Received: {', '.join(odd)}"
        )
    return {name: getattr(config, key) for name, key in CONFIG.items()}


__all__ = ["from_backbone", "is_backbone", "read_checkpoint", "recognise", "to_backbone", "write_checkpoint"]
