"""HuggingFace folders, read and written: config.json, safetensors, tokenizer files, sentence-transformers' pooling."""

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.storage import new_folder, read_json, write_json
from keras_bert.vectors import Pooling
from keras_bert.weights.checkpoint import Checkpoint, Head
from keras_bert.weights.hugging_face_files import stored_weights, write_weights
from keras_bert.weights.hugging_face_text import read_text, tokenizer_config
from keras_bert.weights.names import (
    Row,
    Stored,
    Table,
    head_shapes,
    read,
    refuse_left_over,
    shapes_in,
    theirs,
    write,
)

logger = logging.getLogger("keras_bert")


def _dense(theirs: str, ours: str, **how: Any) -> Table:
    return Row(f"{theirs}.weight", f"{ours}/kernel", transposed=True, **how), Row(
        f"{theirs}.bias", f"{ours}/bias", **how
    )


def _norm(theirs: str, ours: str) -> Table:
    return Row(f"{theirs}.weight", f"{ours}/gamma"), Row(f"{theirs}.bias", f"{ours}/beta")


_LABELLED = ("classifier", "regressor", "tagger")
_MULTI_LABEL = "multi_label_classification"
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
ALIASES = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))  # transformers before 2019
COPIES = {  # names of the same array, where the format writes it twice
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
POOLING = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    **{f"pooling_mode_{mode}": mode for mode in ("mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")},
}
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}


def recognise(path: Path) -> bool:
    config = transformer_folder(path) / "config.json"
    return path.is_dir() and config.is_file() and "class_name" not in read_json(config)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a folder that transformers or sentence-transformers wrote; a file of another architecture is an error."""
    folder = transformer_folder(path)
    data = {"model_type": "bert", **read_json(folder / "config.json")}
    config = BertConfig.from_dict(data, source=str(folder / "config.json"))
    for key in ("is_decoder", "add_cross_attention", "is_encoder_decoder"):
        if data.get(key):
            raise ValueError(
                f"BERT's encoder sees both sides. Load it with its own package. Received: {key}=true in {folder}"
            )
    stored = _plain_names(stored_weights(folder), folder)
    left_out = {name: "counts positions or types; no weight" for name in BUFFERS if stored.pop(name, None)}

    weights = read(ENCODER, stored, shapes_in(ENCODER, stored, config, left_out), config, folder)
    used = theirs(ENCODER, config)

    heads = {}
    for head in _heads(data, stored):
        outputs = _outputs(head, stored)
        weights_of_head = read(HEADS[head], stored, head_shapes(head, config, outputs), config, folder)
        multi_label = head == "classifier" and data.get("problem_type") == _MULTI_LABEL
        heads[head] = Head(weights_of_head, _labels(head, data, outputs, folder), multi_label)
        used |= theirs(HEADS[head], config)
    for copy, original in COPIES.items():
        if copy in stored:
            used.add(copy)
            left_out[copy] = f"the same array as {original}"
            if "mlm" in heads and original in stored:
                name = "mlm_dense/kernel" if copy.endswith("weight") else "mlm_bias/bias"
                weights_of = heads["mlm"].weights
                weights_of[name] = _checked(weights_of[name], stored[copy], stored[original], copy, original, folder)
    refuse_left_over(set(stored) - used, folder)

    vocabulary, rules = read_text(folder)
    if read_json(folder / "sentence_bert_config.json").get("do_lower_case") and not rules.lowercase:
        # sentence-transformers calls lower() on the text and leaves the accents to the tokenizer.
        rules = dataclasses.replace(rules, lowercase=True, strip_accents=bool(rules.strip_accents))
    pooling = _pooling(path, config.max_position_embeddings, left_out)
    checkpoint = Checkpoint(
        str(path), "HuggingFace folder", config, weights, heads, vocabulary, rules, pooling, left_out
    )
    return checkpoint.check()


def _plain_names(stored: dict[str, Stored], folder: Path) -> dict[str, Stored]:
    """Without the prefix of models with a head, and without the old names of norms."""
    plain = {}
    for name, entry in stored.items():
        for old, new in ALIASES:
            name = name.replace(old, new)
        name = name.removeprefix("bert.")
        if name in plain:
            raise ValueError(f"A weight must have one name. Remove the other. Received: {name} twice in {folder}")
        plain[name] = entry
    return plain


def _heads(data: dict[str, Any], stored: dict[str, Stored]) -> list[str]:
    """The heads whose weights are there; several share a name, which the architecture in config.json tells apart."""
    heads = [head for head in ("mlm", "nsp", "qa") if any(row.theirs in stored for row in HEADS[head])]
    if not any(name.startswith("classifier.") for name in stored):
        return heads
    named = [head for kind in data.get("architectures") or () for head in ARCHITECTURES.get(kind, ())]
    named = [head for head in named if HEADS[head][0].theirs == "classifier.weight"]
    if not named:
        raise ValueError(
            "A head named classifier may be of a text, of tokens or of choices; config.json must say so by its "
            f'architectures, such as ["BertForSequenceClassification"]. Received: {data.get("architectures")}'
        )
    if "regressor" in named:
        outputs = stored["classifier.weight"].shape[0] if "classifier.weight" in stored else 0
        kind = data.get("problem_type") or ("regression" if outputs == 1 else "")
        named = ["regressor" if kind == "regression" else "classifier"]
    return [*heads, named[0]]


def _outputs(head: str, stored: dict[str, Stored]) -> int:
    kernel = stored.get(HEADS[head][0].theirs)
    return kernel.shape[0] if kernel else 1


def _labels(head: str, data: dict[str, Any], outputs: int, folder: Path) -> tuple[str, ...] | None:
    if head not in ("classifier", "tagger") or "id2label" not in data:
        return None
    labels = data["id2label"]
    if not isinstance(labels, dict) or set(labels) != {str(i) for i in range(outputs)}:
        raise ValueError(
            f'id2label must name each of the {outputs} outputs, as {{"0": "bad", "1": "good"}}. Correct config.json. '
            f"Received: {labels} in {folder}"
        )
    return tuple(str(labels[str(i)]) for i in range(outputs))


def _checked(value: Stored, copy: Stored, original: Stored, name: str, other: str, folder: Path) -> Stored:
    """The array of a head, once it is seen that what the format writes twice is the same twice."""

    def load() -> np.ndarray:
        if not np.array_equal(copy.read(), original.read()):
            raise ValueError(
                f"BERT's masked language model shares {other} with its output. A model with an output table of its own "
                f"is another architecture. Received: {name} that differs in {folder}"
            )
        return value.read()

    return Stored(value.shape, load)


def _modules(folder: Path) -> dict[str, str]:
    """The modules of a sentence-transformers folder and where they lie; {} for any other folder."""
    if not (folder / "modules.json").is_file():
        return {}
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        return {module["type"].split(".")[-1]: module["path"] for module in modules}
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"modules.json must list modules. Get it again. Received: {folder} ({error!r})") from None


def transformer_folder(folder: Path) -> Path:
    """Where BERT itself lies, which older sentence-transformers folders keep in a folder of its own."""
    return folder / _modules(folder).get("Transformer", "")


def _pooling(folder: Path, positions: int, left_out: dict[str, str]) -> Pooling | None:
    """The settings of a sentence-transformers folder, None for any other."""
    paths = _modules(folder)
    if not paths:
        return None
    reason = ""
    settings = read_json(folder / paths.get("Pooling", "") / "config.json")
    chosen = [mode for key, mode in POOLING.items() if settings.get(key)]
    chosen = chosen or [str(settings.get("pooling_mode"))]
    if others := sorted(set(paths) - {"Transformer", "Pooling", "Normalize"}):
        reason = f"BERT ends before its modules {', '.join(others)}"
    elif len(chosen) > 1 or chosen[0] not in ("mean", "cls", "max"):
        reason = f"its pooling by {' and '.join(chosen)} has no equal here"
    elif prompt := read_json(folder / "config_sentence_transformers.json").get("default_prompt_name"):
        reason = f"it puts the prompt {prompt!r} before each text"
    if reason:
        left_out["modules.json"] = f"{reason}; embed takes its own defaults"
        logger.warning("%s: %s.", folder, left_out["modules.json"])
        return None
    transformer = transformer_folder(folder)
    length = read_json(transformer / "sentence_bert_config.json").get("max_seq_length")
    length = length or read_json(transformer / "tokenizer_config.json").get("model_max_length") or positions
    return Pooling(chosen[0], "Normalize" in paths, int(length) if length < positions else None)


# === Writing ===


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write a folder that transformers loads."""
    architecture = architecture_of(set(checkpoint.heads))
    config = checkpoint.config
    arrays = write(ENCODER, checkpoint.weights, config)
    if architecture != "BertModel":
        arrays = {f"bert.{name}": entry for name, entry in arrays.items()}
    data = {"architectures": [architecture], "model_type": "bert", **dataclasses.asdict(config)}
    data["hidden_act"] = ACTIVATIONS[config.hidden_act]
    for name, head in checkpoint.heads.items():
        arrays |= write(HEADS[name], head.weights, config)
        if name in _LABELLED:
            count = head.weights[f"{name}/kernel"].shape[1]
            labels = head.labels or tuple(f"LABEL_{i}" for i in range(count))
            data["id2label"] = {str(i): label for i, label in enumerate(labels)}
            data["label2id"] = {label: i for i, label in enumerate(labels)}
            data["problem_type"] = _problem_type(name, head.multi_label)
    with new_folder(folder) as partial:
        write_json(partial / "config.json", data)
        write_weights(partial, arrays)
        if checkpoint.pooling is not None:
            _write_modules(partial, checkpoint.pooling, config)
        if checkpoint.vocabulary is not None:
            checkpoint.vocabulary.save(partial / "vocab.txt")
            write_json(
                partial / "tokenizer_config.json", tokenizer_config(checkpoint.rules, config.max_position_embeddings)
            )


def _write_modules(folder: Path, pooling: Pooling, config: BertConfig) -> None:
    """Write what makes the folder one of sentence-transformers."""
    paths = {"Transformer": "", "Pooling": "1_Pooling"} | ({"Normalize": "2_Normalize"} if pooling.normalize else {})
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(paths.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
    for path in list(paths.values())[1:]:
        (folder / path).mkdir()
    modes = {key: mode == pooling.pooling for key, mode in POOLING.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": config.hidden_size, **modes})
    length = pooling.max_length or config.max_position_embeddings
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})


def _problem_type(head: str, multi_label: bool) -> str | None:
    kinds = {"regressor": "regression", "classifier": "single_label_classification"}
    return _MULTI_LABEL if multi_label else kinds.get(head)


def architecture_of(heads: set[str]) -> str:
    """The class whose weights are the encoder and just these heads."""
    for architecture, has in ARCHITECTURES.items():
        if heads == set(has) or (len(heads) == 1 and heads <= set(has) and "mlm" not in has):
            return architecture
    raise ValueError(
        "A HuggingFace folder holds one task: no head, mlm and nsp together, or one head. Leave heads out. "
        f"Received: heads {', '.join(sorted(heads))}"
    )
