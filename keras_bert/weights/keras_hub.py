"""KerasHub's BERT presets and live `BertBackbone` objects, read and written."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.storage import read_json, write_json
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import weights_h5
from keras_bert.weights.checkpoint import Checkpoint, Head, refuse_lost_heads
from keras_bert.weights.tables import (
    Naming,
    Row,
    Stored,
    Table,
    numbered,
    read_all,
    read_head,
    their_names,
    to_their_names,
)
from keras_bert.weights.tokenizer_files import keeps_accents, rules_of
from keras_bert.weights.weights_h5 import WEIGHTS

_NAMES = Naming("/vars/0", "/vars/1", "/vars/0", "/vars/1")
_dense, _norm = _NAMES.dense, _NAMES.norm
_LAYER = "layers/transformer_encoder{_i}"
_ATTENTION = f"{_LAYER}/_self_attention_layer"
ENCODER: Table = (
    Row("layers/reversible_embedding/vars/0", "word_embeddings/embeddings"),
    Row("layers/position_embedding/vars/0", "position_embeddings/embeddings"),
    Row("layers/embedding/vars/0", "type_embeddings/embeddings"),
    *_norm("layers/layer_normalization", "embeddings_norm"),
    *_dense(f"{_ATTENTION}/query_dense", "layer_{i}_attention_qkv", heads=-1, part=0),
    *_dense(f"{_ATTENTION}/key_dense", "layer_{i}_attention_qkv", heads=-1, part=1),
    *_dense(f"{_ATTENTION}/value_dense", "layer_{i}_attention_qkv", heads=-1, part=2),
    *_dense(f"{_ATTENTION}/output_dense", "layer_{i}_attention_output", heads=0),
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
VOCABULARY = Path("assets", "tokenizer", "vocabulary.txt")
_MAKER = "keras_bert"


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """A preset, with the head of a task that was saved with it; None where the folder is in another format."""
    data = read_json(folder / "config.json")
    if not str(data.get("class_name", "")).endswith("Backbone"):
        return None
    if data["class_name"] != "BertBackbone":
        raise ValueError(
            f"{folder} is a KerasHub preset of another model than BERT. Load it with keras_hub. "
            f"Received: {data['class_name']}"
        )
    config = _config(data.get("config") or {}, folder / "config.json")
    path = folder / WEIGHTS
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} is a KerasHub preset without {WEIGHTS}. Save it again with save_to_preset. "
            f"Received: {', '.join(sorted(entry.name for entry in folder.iterdir()))}"
        )
    weights, _, left_out = read_all(ENCODER, {}, weights_h5.stored_weights(path), config, path)
    heads = _task(folder, config)
    checkpoint = Checkpoint(str(folder), "KerasHub preset", config, weights, heads=heads, left_out=left_out)
    if (folder / VOCABULARY).is_file():
        checkpoint.vocabulary = Vocabulary.from_file(folder / VOCABULARY)
        checkpoint.rules = _rules(checkpoint.vocabulary, folder)
    return checkpoint


def _config(data: dict[str, Any], source: Any) -> BertConfig:
    if missing := [key for key in CONFIG if key not in data]:
        raise ValueError(
            f"{source} lacks {', '.join(missing)} in its config. Download or save the preset again. "
            f"Received: {'the keys ' + ', '.join(data) if data else 'no keys'}"
        )
    numbers = {ours: data[name] for name, ours in CONFIG.items()}
    return BertConfig(**numbers, attention_probs_dropout_prob=data["dropout"])


def _rules(vocabulary: Vocabulary, folder: Path) -> TextRules:
    settings = read_json(folder / "tokenizer.json").get("config")
    if not isinstance(settings, dict):
        return rules_of(vocabulary, str(folder))
    split, suffix = settings.get("split", True), settings.get("suffix_indicator", "##")
    if split is False or suffix != "##":
        raise ValueError(
            f"{folder / 'tokenizer.json'} has a tokenizer that does not split words, or does not mark pieces with ##. "
            f"Load it with keras_hub. Received: split={split}, suffix_indicator={suffix!r}"
        )
    lowercase, strip = bool(settings.get("lowercase")), bool(settings.get("strip_accents"))
    # KerasHub writes strip_accents=False for Google's uncased vocabularies too, which were learnt without accents.
    if lowercase and not strip and read_json(folder / "metadata.json").get("written_by") != _MAKER:
        strip = not keeps_accents(vocabulary)
    return TextRules(lowercase, None if strip == lowercase else strip, bool(settings.get("split_on_cjk", True)))


def _task(folder: Path, config: BertConfig) -> dict[str, Head]:
    name = TASKS.get(read_json(folder / "task.json").get("class_name", ""))
    path = folder / "task.weights.h5"
    if name is None or not path.is_file():
        return {}
    weights = read_head(name, HEADS[name], weights_h5.stored_weights(path), config, path)
    # KerasHub's MLM head is computed with another epsilon and GELU than its encoder.
    own = dataclasses.replace(config, hidden_act="gelu_erf", layer_norm_eps=1e-5) if name == "mlm" else None
    return {name: Head(weights, config=own)}


# === Live objects ===


def is_backbone(source: Any) -> bool:
    return isinstance(source, keras.Model) and type(source).__name__ == "BertBackbone"


def from_backbone(backbone: Any) -> Checkpoint:
    """The checkpoint of a live `keras_hub.models.BertBackbone`."""
    config = _config(backbone.get_config(), backbone.name)
    stored = {name: _stored(_variable(backbone, name)) for name in their_names(ENCODER, config)}
    weights, _, _ = read_all(ENCODER, {}, stored, config, backbone.name)
    return Checkpoint(backbone.name, "KerasHub BertBackbone", config, weights)


def _variable(backbone: Any, name: str) -> Any:
    """The variable of a live backbone that a file has under `name`; Keras names a file's groups after attributes."""
    first, layer, *attributes, _, index = name.split("/")
    found = backbone.get_layer(_live_names(backbone.num_layers)[f"{first}/{layer}"])
    for attribute in attributes:
        found = getattr(found, attribute)
    return found.weights[int(index)]


def _live_names(layers: int) -> dict[str, str]:
    return {
        numbered(group, i): numbered(live, i)
        for group, live in LIVE.items()
        for i in range(layers if "{i}" in live else 1)
    }


def _stored(variable: Any) -> Stored:
    return Stored(tuple(variable.shape), lambda: keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32")))


# === Writing ===


def cannot_hold(checkpoint: Checkpoint) -> dict[str, str]:
    """The parts of a checkpoint that are not written, with the reason."""
    reason = "KerasHub computes its heads in another way, so only the encoder is written"
    lost = {f"head {name}": reason for name in checkpoint.heads}
    if checkpoint.pooling is not None:
        lost["pooling"] = "the format does not say how `embed` makes a vector"
    return lost | checkpoint.settings_unlike()


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a preset of the encoder that keras_hub loads into a folder; this needs no keras_hub."""
    refuse_lost_heads(checkpoint, cannot_hold(checkpoint))
    config = checkpoint.config
    settings = _their_config(config)
    if "pooler/kernel" not in checkpoint.weights:
        raise ValueError(
            f"{checkpoint.source} has no pooler, which KerasHub's BERT needs. Write another format. "
            f"Received: {len(checkpoint.weights)} weights, without pooler/kernel"
        )
    arrays = to_their_names(ENCODER, checkpoint.weights, config)
    groups: dict[str, list[Stored]] = {}
    for name in sorted(arrays):
        groups.setdefault(name.rsplit("/vars/", 1)[0], []).append(arrays[name])
    live = _live_names(config.num_hidden_layers)
    entries = ((group, live.get(group, group.split("/")[-1]), stored) for group, stored in groups.items())
    count = sum(math.prod(entry.shape) for entry in checkpoint.weights.values())
    versions = {"keras_version": keras.__version__, "keras_hub_version": "0.32.0", "parameter_count": count}
    folder.mkdir(parents=True, exist_ok=True)
    weights_h5.write_weights(folder / WEIGHTS, entries)
    write_json(folder / "config.json", _object("bert_backbone", "BertBackbone", settings))
    write_json(folder / "metadata.json", {**versions, "written_by": _MAKER})
    if checkpoint.vocabulary is not None:
        (folder / VOCABULARY).parent.mkdir(parents=True)
        checkpoint.vocabulary.save(folder / VOCABULARY)
        tokenizer = _object("bert_tokenizer", "BertTokenizer", _their_rules(checkpoint.rules))
        write_json(folder / "tokenizer.json", tokenizer)


def _their_rules(rules: TextRules) -> dict[str, Any]:
    return {
        "config_file": "tokenizer.json",
        "lowercase": rules.lowercase,
        "strip_accents": rules.strips_accents,
        "split": True,
        "split_on_cjk": rules.split_cjk,
    }


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
            "KerasHub's BERT always has the tanh GELU, layer_norm_eps 1e-12 and one dropout rate, unlike this model. "
            "Write another format. "
            f"Received: {', '.join(odd)}"
        )
    return {name: getattr(config, key) for name, key in CONFIG.items()}
