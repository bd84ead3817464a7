"""Google's TF1 checkpoints, read and written: bert_config.json, vocab.txt, bert_model.ckpt."""

import dataclasses
from pathlib import Path

from keras_bert.config import CONFIG, BertConfig
from keras_bert.storage import read_json, write_json
from keras_bert.weights import tensor_bundle
from keras_bert.weights.checkpoint import Checkpoint, Head, refuse_lost_heads
from keras_bert.weights.tables import Naming, Row, Stored, Table, read_all, to_their_names
from keras_bert.weights.tokenizer_files import read_tokenizer

_NAMES = Naming()
_dense, _norm = _NAMES.dense, _NAMES.norm


def _output(theirs: str, ours: str) -> Table:
    kernel = Row(f"{theirs}output_weights", f"{ours}/kernel", transposed=True)
    return kernel, Row(f"{theirs}output_bias", f"{ours}/bias")


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
PREFIX = "bert_model.ckpt"
_STEPS = ("global_step", "beta1_power", "beta2_power")
_SLOTS = ("/adam_m", "/adam_v", "/Adam", "/Adam_1", "/LAMB", "/LAMB_1")


def read_checkpoint(path: Path) -> Checkpoint | None:
    """A checkpoint beside its bert_config.json, with its heads; None where the path is in another format."""
    prefix = tensor_bundle.prefix_at(path)
    if prefix is None or tensor_bundle.reader(prefix).has_tensor(tensor_bundle.GRAPH):
        return None
    file = prefix.parent / CONFIG
    if not file.is_file():
        raise FileNotFoundError(
            f"{prefix.parent} has a Google checkpoint and no {CONFIG}. Copy the {CONFIG} of the model into the folder. "
            f"Received: {prefix.name}"
        )
    # In Google's file a plain "gelu" is the tanh form, whatever other tools added to it.
    added = ("model_type", "architectures", "transformers_version")
    data = {key: value for key, value in read_json(file).items() if key not in added}
    config = BertConfig.from_dict(data, source=str(file))
    stored = tensor_bundle.stored_arrays(prefix)
    of_optimizer = sorted(name for name in stored if name in _STEPS or name.endswith(_SLOTS))
    for name in of_optimizer:
        del stored[name]
    weights, heads, left_out = read_all(ENCODER, HEADS, stored, config, prefix)
    left_out |= dict.fromkeys(of_optimizer, "it belongs to the optimizer")
    vocabulary, rules = read_tokenizer(prefix.parent)
    return Checkpoint(
        str(path),
        "Google TF1 checkpoint",
        config,
        weights,
        heads={name: Head(arrays) for name, arrays in heads.items()},
        vocabulary=vocabulary,
        rules=rules,
        left_out=left_out,
    )


# === Writing ===


def cannot_hold(checkpoint: Checkpoint) -> dict[str, str]:
    """The parts of a checkpoint that are not written, and the settings that only we read back; each with the reason."""
    lost = checkpoint.heads_unlike_encoder()
    if checkpoint.pooling is not None:
        lost["pooling"] = "the format does not say how `embed` makes a vector"
    for name, head in checkpoint.heads.items():
        if name not in HEADS:
            lost[f"head {name}"] = "Google's checkpoints have no such head"
        elif head.multi_label:  # run_classifier.py would compute a softmax
            lost[f"head {name}"] = "several of its labels may apply to one text, which the format cannot express"
        elif head.labels:
            lost["labels"] = "Google's checkpoints do not name them; they load as LABEL_0 and so on"
    if checkpoint.config.hidden_act != "gelu_tanh":
        lost["hidden_act"] = "kept for keras_bert; Google's scripts have only the tanh GELU, and refuse this model"
    if (epsilon := checkpoint.config.layer_norm_eps) != 1e-12:
        lost["layer_norm_eps"] = f"kept for keras_bert; Google's scripts compute with 1e-12 instead of {epsilon}"
    return lost | checkpoint.settings_unlike()


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write what google-research/bert's scripts read; tokenizer_config.json has the rules that they take as flags.

    The scripts do not have the erf GELU: its name in the config stays ours, which they refuse and we read back.
    """
    refuse_lost_heads(checkpoint, cannot_hold(checkpoint))
    config = checkpoint.config
    arrays: dict[str, Stored] = to_their_names(ENCODER, checkpoint.weights, config)
    for name, head in checkpoint.heads.items():
        arrays |= to_their_names(HEADS[name], head.weights, config)
    data = dataclasses.asdict(config)
    if config.hidden_act == "gelu_tanh":
        data["hidden_act"] = "gelu"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CONFIG, data)
    tensor_bundle.write_arrays(folder / PREFIX, arrays)
    checkpoint.write_tokenizer(folder)
