"""HuggingFace folders, read and written: config.json, weights, tokenizer files, sentence-transformers' pooling."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.storage import read_json, write_json
from keras_bert.text.wordpiece import MAX_CHARACTERS
from keras_bert.weights import sentence_transformers
from keras_bert.weights.checkpoint import Checkpoint, Head, changed_text_settings, refuse_lost_heads
from keras_bert.weights.keras_variables import Variables, add
from keras_bert.weights.sentence_transformers import transformer_folder
from keras_bert.weights.tables import Naming, Row, Stored, Table, head_outputs, read_all, to_their_names
from keras_bert.weights.tf_flax_names import as_torch, tensorflow_classes
from keras_bert.weights.tokenizer_files import THEIR_LIMIT, read_tokenizer, word_limit
from keras_bert.weights.weight_files import WEIGHT_FILES, stored_weights, write_weights

_NAMES = Naming(".weight", ".bias", ".weight", ".bias", transposed=True)
_dense, _norm = _NAMES.dense, _NAMES.norm
_LABELLED = ("classifier", "regressor", "tagger")
_MULTI_LABEL = "multi_label_classification"
_PROBLEM_TYPES = {"regressor": "regression", "classifier": "single_label_classification"}
_LAYER = "encoder.layer.{i}"
ENCODER: Table = (
    Row("embeddings.word_embeddings.weight", "word_embeddings/embeddings"),
    Row("embeddings.position_embeddings.weight", "position_embeddings/embeddings"),
    Row("embeddings.token_type_embeddings.weight", "type_embeddings/embeddings"),
    *_norm("embeddings.LayerNorm", "embeddings_norm"),
    *_dense(f"{_LAYER}.attention.self.query", "layer_{i}_attention_qkv", part=0),
    *_dense(f"{_LAYER}.attention.self.key", "layer_{i}_attention_qkv", part=1),
    *_dense(f"{_LAYER}.attention.self.value", "layer_{i}_attention_qkv", part=2),
    *_dense(f"{_LAYER}.attention.output.dense", "layer_{i}_attention_output"),
    *_norm(f"{_LAYER}.attention.output.LayerNorm", "layer_{i}_attention_norm"),
    *_dense(f"{_LAYER}.intermediate.dense", "layer_{i}_intermediate"),
    *_dense(f"{_LAYER}.output.dense", "layer_{i}_output"),
    *_norm(f"{_LAYER}.output.LayerNorm", "layer_{i}_output_norm"),
    *_dense("pooler.dense", "pooler"),
)
HEADS: dict[str, Table] = {
    "mlm": (
        *_dense("cls.predictions.transform.dense", "mlm_dense"),
        *_norm("cls.predictions.transform.LayerNorm", "mlm_norm"),
        Row("cls.predictions.bias", "mlm_bias/bias"),
    ),
    "nsp": _dense("cls.seq_relationship", "nsp"),
    "classifier": _dense("classifier", "classifier"),
    "regressor": _dense("classifier", "regressor"),
    "tagger": _dense("classifier", "tagger"),
    "choice": _dense("classifier", "choice"),
    "qa": _dense("qa_outputs", "qa"),
}
ARCHITECTURES = {  # the class in config.json, and the heads its weights have; the first that has them all is written
    "BertModel": (),
    "BertForPreTraining": ("mlm", "nsp"),
    "BertForMaskedLM": ("mlm",),
    "BertForNextSentencePrediction": ("nsp",),
    "BertForSequenceClassification": ("classifier", "regressor"),
    "BertForTokenClassification": ("tagger",),
    "BertForQuestionAnswering": ("qa",),
    "BertForMultipleChoice": ("choice",),
}
WITHOUT_POOLER = ("BertForTokenClassification", "BertForQuestionAnswering")
COPIES = {  # names of the same array, where the format writes it twice
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# Of parallel, compiled, wrapped models; of Flax's; of models with heads.
_PREFIX = re.compile(r"((module|_orig_mod|model|params)\.)*(bert\.)?")
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}


def read_checkpoint(path: Path) -> Checkpoint | None:
    """A folder that transformers or sentence-transformers wrote; None where the path is in another format."""
    if path.name.removesuffix(".index.json") in WEIGHT_FILES and path.is_file():
        path = path.parent
    folder = transformer_folder(path)
    config = folder / "config.json"
    if not path.is_dir() or not config.is_file() or "class_name" in read_json(config):
        return None
    return _checkpoint(path, folder, stored_weights(folder), "HuggingFace folder")


def read_variables(variables: Variables) -> Checkpoint:
    """Read a SavedModel or a checkpoint of transformers' TensorFlow classes; config.json may be two folders up."""
    folders = (variables.folder, *variables.folder.absolute().parents[:2])
    folder = next((folder for folder in folders if (folder / "config.json").is_file()), None)
    if folder is None:
        raise FileNotFoundError(
            f"{variables.path} holds a BERT of transformers without its config. Copy the config.json of the model into "
            f"the folder. Received: no config.json in {variables.folder}"
        )
    return _checkpoint(variables.path, folder, variables.stored, "SavedModel of transformers")


def _checkpoint(path: Path, folder: Path, arrays: dict[str, Stored], form: str) -> Checkpoint:
    data = {"model_type": "bert", **read_json(folder / "config.json")}
    config = BertConfig.from_dict(data, source=str(folder / "config.json"))
    for key in ("is_decoder", "add_cross_attention", "is_encoder_decoder"):
        if data.get(key):
            raise ValueError(
                f"{folder / 'config.json'} describes a decoder, which keras_bert does not have. Load it with "
                f"transformers. Received: {key}=true"
            )
    data["architectures"] = data.get("architectures") or tensorflow_classes(arrays)
    stored = _plain_names(arrays, folder)
    reasons = {name: "it counts positions or types and is no weight" for name in BUFFERS if stored.pop(name, None)}
    copies = {copy: stored.pop(copy) for copy in COPIES if copy in stored}
    reasons |= {copy: f"it is the same array as {COPIES[copy]}" for copy in copies}
    tables = {head: HEADS[head] for head in _heads(data, stored, folder)}
    weights, heads, left_out = read_all(ENCODER, tables, stored, config, folder)
    if "mlm" in heads:
        for copy, entry in copies.items():
            if (original := COPIES[copy]) in stored:
                name = "mlm_dense/kernel" if copy.endswith("weight") else "mlm_bias/bias"
                heads["mlm"][name] = _checked(heads["mlm"][name], entry, stored[original], copy, original, folder)
    vocabulary, rules = read_tokenizer(folder)
    left_out |= reasons
    if sentence_transformers.lowercases(folder) and not rules.lowercase:
        rules = dataclasses.replace(rules, lowercase=True, strip_accents=bool(rules.strip_accents))
    pooling = sentence_transformers.read_pooling(path, config.max_position_embeddings, left_out)
    found = {
        head: Head(
            arrays,
            _labels(head, data, head_outputs(HEADS[head], stored), folder),
            head == "classifier" and data.get("problem_type") == _MULTI_LABEL,
        )
        for head, arrays in heads.items()
    }
    settings = changed_text_settings({"max_word_length": word_limit(folder)} if vocabulary else {})
    return Checkpoint(
        str(path),
        form,
        config,
        weights,
        heads=found,
        vocabulary=vocabulary,
        rules=rules,
        pooling=pooling,
        left_out=left_out,
        text_settings=settings,
    )


def _plain_names(stored: dict[str, Stored], folder: Path) -> dict[str, Stored]:
    """By torch's names, without the prefixes of models that contain the encoder."""
    plain: dict[str, Stored] = {}
    names: dict[str, str] = {}
    # TensorFlow writes a variable again for each layer that uses it, below the name of that layer.
    variables: dict[str, str] = {}
    arrays: dict[str, Stored] = {}
    for theirs, entry in stored.items():
        variable = theirs.split("/", 1)[-1]
        variables[variable] = theirs
        add(arrays, variable, entry, folder)
    for variable, theirs in variables.items():
        name, entry = as_torch(theirs, arrays[variable])
        name = _PREFIX.sub("", name, count=1)
        if name in plain:
            raise ValueError(
                f"{folder} has the weight {name} under two names. Remove one of the two. "
                f"Received: {names[name]} and {theirs}"
            )
        plain[name], names[name] = entry, theirs
    return plain


def _heads(data: dict[str, Any], stored: dict[str, Stored], folder: Path) -> list[str]:
    """The heads of which there are weights; `architectures` in config.json distinguishes those that share a name."""
    heads = [head for head in ("mlm", "nsp", "qa") if any(row.theirs in stored for row in HEADS[head])]
    if not any(name.startswith("classifier.") for name in stored):
        return heads
    kinds = data.get("architectures")
    named = [head for kind in (kinds if isinstance(kinds, list) else ()) for head in ARCHITECTURES.get(str(kind), ())]
    named = [head for head in named if HEADS[head][0].theirs == "classifier.weight"]
    if not named:
        raise ValueError(
            f"{folder / 'config.json'} does not say what its head `classifier` is for: texts, tokens or choices. "
            'Set `architectures`, for example to ["BertForSequenceClassification"]. '
            f"Received: architectures={data.get('architectures')}"
        )
    if "regressor" in named:
        kind = data.get("problem_type") or ("regression" if head_outputs(HEADS["regressor"], stored) == 1 else "")
        named = ["regressor" if kind == "regression" else "classifier"]
    return [*heads, named[0]]


def _labels(head: str, data: dict[str, Any], outputs: int, folder: Path) -> tuple[str, ...] | None:
    labels = data.get("id2label")
    if head not in ("classifier", "tagger") or labels is None:
        return None
    wanted = {str(i) for i in range(outputs)}
    names = {str(name) for name in labels.values() if name not in (None, "")} if isinstance(labels, dict) else set()
    if not isinstance(labels, dict) or set(labels) != wanted or len(names) < outputs:
        raise ValueError(
            f"{folder / 'config.json'} has an id2label that does not give each of the {outputs} outputs a name of its "
            'own. Correct it, as in {"0": "bad", "1": "good"}, or remove it and pass `labels` to `load`. '
            f"Received: {labels}"
        )
    return tuple(str(labels[str(i)]) for i in range(outputs))


def _checked(value: Stored, copy: Stored, original: Stored, name: str, other: str, folder: Path) -> Stored:
    """The array of a head; reading it checks that an array which the format writes twice is the same both times."""

    def load() -> np.ndarray:
        if not np.array_equal(copy.read(), original.read()):
            raise ValueError(
                f"{folder} has a masked-word head with an output matrix of its own, but BERT uses the word table. "
                f"Load it with transformers. Received: {name} that differs from {other}"
            )
        return value.read()

    return Stored(value.shape, load)


# === Writing ===


def cannot_hold(checkpoint: Checkpoint) -> dict[str, str]:
    """The parts of a checkpoint that are not written, with the reason."""
    lost = checkpoint.heads_unlike_encoder()
    kept = [name for name in checkpoint.heads if f"head {name}" not in lost]
    while _architecture(set(kept)) is None:
        lost[f"head {kept.pop(0)}"] = "a HuggingFace folder holds one task"
    if (architecture := _architecture(set(kept))) in WITHOUT_POOLER:
        lost["pooler"] = f"{architecture} of transformers has none"
    limit = checkpoint.text_settings.get("max_word_length", MAX_CHARACTERS)
    if checkpoint.vocabulary is not None and limit != THEIR_LIMIT:
        lost["max_word_length"] = (
            f"words above {THEIR_LIMIT} characters become [UNK] in transformers, above {limit} in keras_bert"
        )
    return lost | checkpoint.settings_unlike("max_word_length")


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write what transformers loads into a folder."""
    refuse_lost_heads(checkpoint, cannot_hold(checkpoint))
    architecture = _architecture(set(checkpoint.heads))
    config = checkpoint.config
    encoder = checkpoint.without({"pooler"} if architecture in WITHOUT_POOLER else ())
    arrays = to_their_names(ENCODER, encoder.weights, config)
    if architecture != "BertModel":
        arrays = {f"bert.{name}": entry for name, entry in arrays.items()}
    data = {"architectures": [architecture], "model_type": "bert", **dataclasses.asdict(config)}
    data["hidden_act"] = ACTIVATIONS[config.hidden_act]
    for name, head in checkpoint.heads.items():
        arrays |= to_their_names(HEADS[name], head.weights, config)
        if name in _LABELLED:
            count = head.weights[f"{name}/kernel"].shape[1]
            labels = head.labels or tuple(f"LABEL_{i}" for i in range(count))
            data["id2label"] = {str(i): label for i, label in enumerate(labels)}
            data["label2id"] = {label: i for i, label in enumerate(labels)}
            data["problem_type"] = _MULTI_LABEL if head.multi_label else _PROBLEM_TYPES.get(name)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", data)
    write_weights(folder, arrays)
    checkpoint.write_tokenizer(folder)
    if checkpoint.pooling is not None:
        sentence_transformers.write_pooling(folder, checkpoint.pooling, config)


def _architecture(heads: set[str]) -> str | None:
    """The class whose weights are the encoder and exactly these heads, None if there is none."""
    for architecture, has in ARCHITECTURES.items():
        if heads == set(has) or (len(heads) == 1 and heads <= set(has) and "mlm" not in has):
            return architecture
    return None
