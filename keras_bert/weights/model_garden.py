"""Model Garden's TF2 checkpoints and TF-Hub's SavedModels of BERT, read.

Both hold an object graph that keeps each variable's name; the names are what the releases have in common.
"""

import re
from pathlib import Path
from typing import Any

from keras_bert.compat import read_object_graph
from keras_bert.config import BertConfig
from keras_bert.storage import read_json
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import tensor_bundle
from keras_bert.weights.checkpoint import Checkpoint, Head, TextRules
from keras_bert.weights.google import CONFIG, text_of
from keras_bert.weights.names import (
    Row,
    Stored,
    Table,
    head_shapes,
    read,
    refuse_left_over,
    shapes_in,
    theirs,
)
from keras_bert.weights.rules import rules_of


def _dense(theirs: str, ours: str, kernel: dict[str, Any] | None = None, bias: dict[str, Any] | None = None) -> Table:
    kernel_row = Row(f"{theirs}/kernel", f"{ours}/kernel", **(kernel or {}))
    return kernel_row, Row(f"{theirs}/bias", f"{ours}/bias", **(bias or {}))


def _norm(theirs: str, ours: str) -> Table:
    return Row(f"{theirs}/gamma", f"{ours}/gamma"), Row(f"{theirs}/beta", f"{ours}/beta")


def _heads(theirs: str, part: int) -> Table:
    how: dict[str, Any] = {"part": part, "heads": -1}
    return _dense(f"{_LAYER}/self_attention/{theirs}", "layer_{i}_attention_qkv", how, how)


_LAYER = "transformer/layer_{i}"
ENCODER: Table = (
    Row("word_embeddings/embeddings", "word_embeddings/embeddings"),
    Row("position_embedding/embeddings", "position_embeddings/embeddings"),
    Row("type_embeddings/embeddings", "type_embeddings/embeddings"),
    *_norm("embeddings/layer_norm", "embeddings_norm"),
    *_heads("query", 0),
    *_heads("key", 1),
    *_heads("value", 2),
    *_dense(f"{_LAYER}/self_attention/attention_output", "layer_{i}_attention_output", {"heads": 0}),
    *_norm(f"{_LAYER}/self_attention_layer_norm", "layer_{i}_attention_norm"),
    *_dense(f"{_LAYER}/intermediate", "layer_{i}_intermediate"),
    *_dense(f"{_LAYER}/output", "layer_{i}_output"),
    *_norm(f"{_LAYER}/output_layer_norm", "layer_{i}_output_norm"),
    *_dense("pooler_transform", "pooler"),
)
HEADS: dict[str, Table] = {
    "mlm": (
        *_dense("cls/predictions/transform/dense", "mlm_dense"),
        *_norm("cls/predictions/transform/LayerNorm", "mlm_norm"),
        Row("cls/predictions/output_bias/bias", "mlm_bias/bias"),
    ),
    "nsp": _dense("next_sentence/logits", "nsp"),
    "classifier": _dense("sentence_prediction/logits", "classifier"),
}
# A head with a pooler of its own, which was trained in place of the encoder's.
POOLERS = ("next_sentence/pooler_dense", "sentence_prediction/pooler_dense")
ALIASES = (  # what a variable's name may begin with or hold, and what it is in the tables
    (r":0$", ""),
    (r"^bert_encoder(_v2)?(_\d+)?/", ""),
    (r"^(bert_pretrainer(_v2)?|bert_classifier|bert_model|bert|transformer_encoder|keras_layer|model)(_\d+)?/", ""),
    (r"^embedding_postprocessor/(type_embeddings|position_embeddings)$", r"\1/embeddings"),
    (r"^embedding_postprocessor/layer_norm/", "embeddings/layer_norm/"),
    (r"^position_embeddings/", "position_embedding/"),
    (r"^encoder/layer_", "transformer/layer_"),
    (r"/self_attention_output/", "/self_attention/attention_output/"),
    (r"^predictions/(transform|output_bias)/", r"cls/predictions/\1/"),
)
_AMBIGUOUS = "cls/predictions/transform/logits/"  # Garden's name for the output of NSP, spans and tags alike
_BOOKKEEPING = ("save_counter", "global_step", "step", "training_step", "do_lower_case", "_CHECKPOINTABLE_OBJECT_GRAPH")
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def recognise(path: Path) -> bool:
    if is_saved_model(path):
        return True
    prefix = tensor_bundle.prefix_at(path)
    return prefix is not None and tensor_bundle.reader(prefix).has_tensor(tensor_bundle.GRAPH)


def is_saved_model(path: Path) -> bool:
    return path.is_dir() and (path / "saved_model.pb").is_file()


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint or a SavedModel. Without a config the sizes are its arrays', and GELU is the tanh form."""
    saved_model = is_saved_model(path)
    prefix = path / "variables" / "variables" if saved_model else tensor_bundle.prefix_at(path)
    assert prefix is not None
    folder = path if saved_model else prefix.parent
    left_out: dict[str, str] = {}
    stored = _named(prefix, left_out)
    config = _config(stored, folder)
    if "cls/predictions/output_bias/bias" in stored:  # of a pretrainer, whose other output is the next sentence's
        stored = {name.replace(_AMBIGUOUS, "next_sentence/logits/"): entry for name, entry in stored.items()}

    for pooler in POOLERS:
        if f"{pooler}/kernel" in stored:
            for weight in ("kernel", "bias"):
                if stored.pop(f"pooler_transform/{weight}", None):
                    left_out[f"pooler_transform/{weight}"] = f"training left it as it began and used {pooler}"
                stored[f"pooler_transform/{weight}"] = stored.pop(f"{pooler}/{weight}")
    weights = read(ENCODER, stored, shapes_in(ENCODER, stored, config, left_out), config, prefix)
    used = theirs(ENCODER, config)
    heads = {}
    for head, table in HEADS.items():
        if any(row.theirs in stored for row in table):
            kernel = stored.get(table[0].theirs)
            head_shape = head_shapes(head, config, kernel.shape[1] if kernel else 1)
            heads[head] = Head(read(table, stored, head_shape, config, prefix))
            used |= theirs(table, config)
    for name in sorted(set(stored) - used):
        if name.startswith(_AMBIGUOUS):
            used.add(name)
            left_out[name] = "a head whose task the checkpoint does not name"
    refuse_left_over(set(stored) - used, prefix)

    kind = "SavedModel" if saved_model else "Model Garden checkpoint"
    vocabulary, rules = _text(folder, prefix) if saved_model else text_of(folder)
    return Checkpoint(str(path), kind, config, weights, heads, vocabulary, rules, left_out=left_out).check()


def _named(prefix: Path, left_out: dict[str, str]) -> dict[str, Stored]:
    """The arrays by their variables' names; the optimizer's and counters are left out."""
    arrays = tensor_bundle.stored_arrays(prefix)
    names = _full_names(prefix)
    stored: dict[str, Stored] = {}
    for key, entry in sorted(arrays.items()):
        path = key.removesuffix(_VALUE)
        if not key.endswith(_VALUE) or path.split("/")[-1] in _BOOKKEEPING:
            continue
        if "/.OPTIMIZER_SLOT/" in key or re.search(r"(^|/)_?optimizer/", path):
            left_out[path] = "the optimizer's"
            continue
        name = names.get(key) or path
        for pattern, plain in ALIASES:
            name = re.sub(pattern, plain, name)
        if name in stored and stored[name].shape != entry.shape:
            raise ValueError(
                "A checkpoint must hold one BERT. Save the one encoder with tf.train.Checkpoint(encoder=...). "
                f"Received: two weights named {name} in {prefix}"
            )
        stored[name] = entry
    return stored


def _full_names(prefix: Path) -> dict[str, str]:
    graph = read_object_graph(tensor_bundle.reader(prefix).get_tensor(tensor_bundle.GRAPH))
    return {entry.checkpoint_key: entry.full_name for node in graph.nodes for entry in node.attributes}


def _config(stored: dict[str, Stored], folder: Path) -> BertConfig:
    if data := read_json(folder / CONFIG):
        return BertConfig.from_dict(data, source=str(folder / CONFIG))
    try:
        vocab_size, hidden = stored["word_embeddings/embeddings"].shape
        layers = {int(found[1]) for name in stored if (found := re.match(r"transformer/layer_(\d+)/", name))}
        return BertConfig(
            vocab_size=vocab_size,
            hidden_size=hidden,
            num_hidden_layers=max(layers) + 1,
            num_attention_heads=stored["transformer/layer_0/self_attention/query/bias"].shape[0],
            intermediate_size=stored["transformer/layer_0/intermediate/bias"].shape[0],
            max_position_embeddings=stored["position_embedding/embeddings"].shape[0],
            type_vocab_size=stored["type_embeddings/embeddings"].shape[0],
        )
    except (KeyError, ValueError) as error:
        raise ValueError(
            "The variables must be those of Model Garden's BERT; it may be another model. "
            f"Received: {folder}, without {error}"
        ) from None


def _text(folder: Path, prefix: Path) -> tuple[Vocabulary | None, TextRules]:
    """A SavedModel's vocabulary is its asset vocab.txt, and its rule a variable do_lower_case."""
    assets = folder / "assets"
    path = next((assets / name for name in ("vocab.txt", "vocabulary.txt") if (assets / name).is_file()), None)
    if path is None:
        return None, TextRules()
    vocabulary = Vocabulary.from_file(path)
    reader = tensor_bundle.reader(prefix)
    key = f"do_lower_case{_VALUE}"
    if not reader.has_tensor(key):
        return vocabulary, rules_of(vocabulary, str(folder))
    return vocabulary, TextRules(lowercase=bool(reader.get_tensor(key)))
