"""Google's TF1 checkpoints, read and written: bert_config.json, vocab.txt, bert_model.ckpt."""

import dataclasses
from pathlib import Path
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.storage import new_folder, read_json, write_json
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import tensor_bundle
from keras_bert.weights.checkpoint import Checkpoint, Head, TextRules
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
from keras_bert.weights.rules import rules_of


def _dense(theirs: str, ours: str, **how: Any) -> Table:
    return Row(f"{theirs}/kernel", f"{ours}/kernel", **how), Row(f"{theirs}/bias", f"{ours}/bias", **how)


def _norm(theirs: str, ours: str) -> Table:
    return Row(f"{theirs}/gamma", f"{ours}/gamma"), Row(f"{theirs}/beta", f"{ours}/beta")


def _output(theirs: str, ours: str) -> Table:
    return Row(f"{theirs}output_weights", f"{ours}/kernel", transposed=True), Row(
        f"{theirs}output_bias", f"{ours}/bias"
    )


_LAYER = "bert/encoder/layer_{i}"
ENCODER: Table = (
    Row("bert/embeddings/word_embeddings", "word_embeddings/embeddings"),
    Row("bert/embeddings/position_embeddings", "position_embeddings/embeddings"),
    Row("bert/embeddings/token_type_embeddings", "type_embeddings/embeddings"),
    *_norm("bert/embeddings/LayerNorm", "embeddings_norm"),
    *_dense(f"{_LAYER}/attention/self/query", "layer_{i}_attention_qkv", part=0),
    *_dense(f"{_LAYER}/attention/self/key", "layer_{i}_attention_qkv", part=1),
    *_dense(f"{_LAYER}/attention/self/value", "layer_{i}_attention_qkv", part=2),
    *_dense(f"{_LAYER}/attention/output/dense", "layer_{i}_attention_output"),
    *_norm(f"{_LAYER}/attention/output/LayerNorm", "layer_{i}_attention_norm"),
    *_dense(f"{_LAYER}/intermediate/dense", "layer_{i}_intermediate"),
    *_dense(f"{_LAYER}/output/dense", "layer_{i}_output"),
    *_norm(f"{_LAYER}/output/LayerNorm", "layer_{i}_output_norm"),
    *_dense("bert/pooler/dense", "pooler"),
)
HEADS: dict[str, Table] = {
    "mlm": (
        *_dense("cls/predictions/transform/dense", "mlm_dense"),
        *_norm("cls/predictions/transform/LayerNorm", "mlm_norm"),
        Row("cls/predictions/output_bias", "mlm_bias/bias"),
    ),
    "nsp": _output("cls/seq_relationship/", "nsp"),
    "classifier": _output("", "classifier"),  # run_classifier.py
    "qa": _output("cls/squad/", "qa"),  # run_squad.py
}
PREFIX, CONFIG, VOCABULARY = "bert_model.ckpt", "bert_config.json", "vocab.txt"
_STEPS = ("global_step", "beta1_power", "beta2_power")
_SLOTS = ("/adam_m", "/adam_v", "/Adam", "/Adam_1")


def recognise(path: Path) -> bool:
    prefix = tensor_bundle.prefix_at(path)
    return prefix is not None and not tensor_bundle.reader(prefix).has_tensor(tensor_bundle.GRAPH)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint beside its bert_config.json, pretraining and fine-tuning heads included."""
    prefix = tensor_bundle.prefix_at(path)
    assert prefix is not None
    if not (prefix.parent / CONFIG).is_file():
        raise FileNotFoundError(
            f"A Google checkpoint needs its {CONFIG} in the same folder. Copy it there. Received: {prefix.parent}"
        )
    config = BertConfig.from_dict(_without_signs(prefix.parent), source=str(prefix.parent / CONFIG))
    stored = tensor_bundle.stored_arrays(prefix)
    left_out: dict[str, str] = {}
    for name in sorted(stored):
        if name in _STEPS or name.endswith(_SLOTS):
            left_out[name] = "the optimizer's"
            del stored[name]
    weights = read(ENCODER, stored, shapes_in(ENCODER, stored, config, left_out), config, prefix)
    used = theirs(ENCODER, config)
    heads = {}
    for head, table in HEADS.items():
        if any(row.theirs in stored for row in table):
            kernel = stored.get(table[0].theirs)
            shapes = head_shapes(head, config, kernel.shape[0] if kernel else 1)
            heads[head] = Head(read(table, stored, shapes, config, prefix))
            used |= theirs(table, config)
    refuse_left_over(set(stored) - used, prefix)
    vocabulary, rules = text_of(prefix.parent)
    return Checkpoint(
        str(path), "Google TF1 checkpoint", config, weights, heads, vocabulary, rules, left_out=left_out
    ).check()


def _without_signs(folder: Path) -> dict[str, Any]:
    """Google's file, whose plain "gelu" is the tanh form whatever other tools added to it."""
    signs = ("model_type", "architectures", "transformers_version")
    return {key: value for key, value in read_json(folder / CONFIG).items() if key not in signs}


def text_of(folder: Path) -> tuple[Vocabulary | None, TextRules]:
    """The folder's vocabulary, and its rules as tokenizer_config.json says them or the vocabulary shows them."""
    if not (folder / VOCABULARY).is_file():
        return None, TextRules()
    if (folder / "tokenizer_config.json").is_file():
        return read_text(folder)
    vocabulary = Vocabulary.from_file(folder / VOCABULARY)
    return vocabulary, rules_of(vocabulary, str(folder))


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write what google-research/bert's scripts read; tokenizer_config.json says the rules that they take as flags.

    Of the erf GELU, which the scripts do not have, the config keeps our name: they refuse it, and we read it back.
    """
    config = checkpoint.config
    arrays: dict[str, Stored] = write(ENCODER, checkpoint.weights, config)
    for name, head in checkpoint.heads.items():
        if name not in HEADS:
            raise ValueError(f"Google's checkpoints have no head {name}. Leave it out. Received: {checkpoint.source}")
        if head.multi_label:  # which would be read as a softmax
            raise ValueError(
                "Google's classifiers give one label a text. Leave the head out, or write another format. "
                f"Received: multi_label=True of {checkpoint.source}"
            )
        arrays |= write(HEADS[name], head.weights, config)
    with new_folder(folder) as partial:
        data = dataclasses.asdict(config)
        if config.hidden_act == "gelu_tanh":
            data["hidden_act"] = "gelu"
        write_json(partial / CONFIG, data)
        tensor_bundle.write_arrays(partial / PREFIX, arrays)
        if checkpoint.vocabulary is not None:
            checkpoint.vocabulary.save(partial / VOCABULARY)
            write_json(
                partial / "tokenizer_config.json", tokenizer_config(checkpoint.rules, config.max_position_embeddings)
            )
