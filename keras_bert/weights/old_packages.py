"""Models of CyberZHG's keras-bert, bert4keras and bert-for-tf2, read: HDF5 files and TensorFlow checkpoints."""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from keras_bert.config import CONFIG, BertConfig
from keras_bert.storage import read_json
from keras_bert.weights import google
from keras_bert.weights.checkpoint import Checkpoint, Head
from keras_bert.weights.keras_variables import Variables, sizes
from keras_bert.weights.tables import Naming, Row, Table, numbered, read_all
from keras_bert.weights.tokenizer_files import read_tokenizer

_NAMES = Naming()
_dense, _norm = _NAMES.dense, _NAMES.norm


def _encoder(block: str, attention: str, feed_forward: str, pooler: str) -> Table:
    query, key, value, output = (f"{block}-MultiHeadSelfAttention/{name}" for name in attention)
    inner, outer = (f"{block}-FeedForward/{name}" for name in feed_forward)
    return (
        Row("Embedding-Token/embeddings", "word_embeddings/embeddings"),
        Row("Embedding-Position/embeddings", "position_embeddings/embeddings"),
        Row("Embedding-Segment/embeddings", "type_embeddings/embeddings"),
        *_norm("Embedding-Norm", "embeddings_norm"),
        *_dense(query, "layer_{i}_attention_qkv", part=0),
        *_dense(key, "layer_{i}_attention_qkv", part=1),
        *_dense(value, "layer_{i}_attention_qkv", part=2),
        *_dense(output, "layer_{i}_attention_output"),
        *_norm(f"{block}-MultiHeadSelfAttention-Norm", "layer_{i}_attention_norm"),
        *_dense(inner, "layer_{i}_intermediate"),
        *_dense(outer, "layer_{i}_output"),
        *_norm(f"{block}-FeedForward-Norm", "layer_{i}_output_norm"),
        *_dense(pooler, "pooler"),
    )


def _heads(bias: str, nsp: str) -> dict[str, Table]:
    mlm = (*_dense("MLM-Dense", "mlm_dense"), *_norm("MLM-Norm", "mlm_norm"), Row(bias, "mlm_bias/bias"))
    return {"mlm": mlm, "nsp": _dense(nsp, "nsp")}


@dataclass(frozen=True)
class Package:
    """One of the packages.

    pooler, last: the layers (names or classes) of our pooled and sequence output; {i} and {i+1} as in `Row`.
    gelu, epsilon: what "gelu" means to it, and the epsilon of its norms, where a file does not say it.
    aliases: a pattern in a variable's name, and what the table has instead.
    """

    name: str
    encoder: Table
    heads: dict[str, Table]
    pooler: str | None
    last: str
    gelu: str
    epsilon: float
    aliases: tuple[tuple[str, str], ...] = ()


KERAS_BERT = Package(
    "CyberZHG's keras-bert",
    _encoder("Encoder-{i+1}", "qkvo", "12", "NSP-Dense"),
    _heads("MLM-Sim/bias", "NSP"),
    pooler="NSP-Dense",
    last="Encoder-{i+1}-FeedForward-Norm",
    gelu="gelu_tanh",
    epsilon=1e-14,
    aliases=((r"/[^/]+_W(.)$", r"/\1/kernel"), (r"/[^/]+_b(.)$", r"/\1/bias")),
)
BERT4KERAS = Package(
    "bert4keras",
    _encoder("Transformer-{i}", "0123", "01", "Pooler-Dense"),
    _heads("MLM-Bias/beta", "NSP-Proba"),
    pooler="Pooler-Dense",
    last="Transformer-{i}-FeedForward-Norm",
    gelu="gelu_erf",
    epsilon=1e-7,
    aliases=((r"^MLM-Bias/bias$", "MLM-Bias/beta"),),  # before 0.8
)
BERT_FOR_TF2 = Package(
    "bert-for-tf2",
    google.ENCODER,
    {},
    pooler=None,
    last="BertModelLayer",
    gelu="gelu_tanh",
    epsilon=1e-12,
    aliases=(
        (r"^.*?/?embeddings/(\w+_embeddings)/embeddings$", r"bert/embeddings/\1"),
        (r"^.*?/?embeddings/LayerNorm/", "bert/embeddings/LayerNorm/"),
        (r"^.*?/?encoder/layer_(\d+)/", r"bert/encoder/layer_\1/"),
        (r"/intermediate/(kernel|bias)$", r"/intermediate/dense/\1"),
    ),
)

# Keras counts equal names in one process.
_COUNTED = (r"^((?:Embedding|MLM|NSP|Pooler|Encoder|Transformer)[^/]*?)_\d+/", r"\1/")
_OURS = re.compile(r"(Embedding|MLM|NSP|Pooler|Encoder|Transformer)-|NSP/|bert/")  # layers of BERT in all of them
_SETTINGS = {  # of a class of layers, and ours
    "MultiHeadAttention": {"head_num": "num_attention_heads", "heads": "num_attention_heads"},
    "BertModelLayer": {"num_heads": "num_attention_heads", "intermediate_activation": "hidden_act"},
    "FeedForward": {"activation": "hidden_act"},
    "LayerNormalization": {"epsilon": "layer_norm_eps"},
}


def package_of(variables: Variables) -> Package | None:
    signs = {
        "Encoder-1-FeedForward": KERAS_BERT,
        "Transformer-0-FeedForward": BERT4KERAS,
        "embeddings/word_embeddings/embeddings": BERT_FOR_TF2,
    }
    return next((package for sign, package in signs.items() if any(sign in name for name in variables.stored)), None)


def read_variables(variables: Variables, package: Package) -> Checkpoint:
    """The model of one of the packages; a Dense layer of the user's own on BERT's outputs is read as its head."""
    path = variables.path
    variables = _numbered(variables.renamed((_COUNTED, *package.aliases)))
    stored, config = variables.stored, _config(variables, package)
    tables, heads = dict(package.heads), {}
    last = numbered(package.last, config.num_hidden_layers - 1)
    outside = [name for name in stored if not _OURS.match(name)]
    for name in outside:
        kind = _kind(variables.layers.get(variables.places[name], {}), variables.layers, package, last)
        if kind and kind[0] not in tables:
            tables[kind[0]] = _dense(name.rpartition("/")[0], kind[0])
            heads[kind[0]] = kind[1]
    weights, found, left_out = read_all(package.encoder, tables, stored, config, path, outside)
    vocabulary, rules = read_tokenizer(variables.folder)
    return Checkpoint(
        str(path),
        package.name,
        config,
        weights,
        heads={name: Head(arrays, multi_label=heads.get(name, False)) for name, arrays in found.items()},
        vocabulary=vocabulary,
        rules=rules,
        left_out=variables.left_out | left_out,
    )


def _numbered(variables: Variables) -> Variables:
    """With the Dense layers inside a layer counted from 0; Keras counts those of the whole process."""
    inner = re.compile(r"^(Transformer-.+)/dense(?:_(\d+))?/(kernel|bias)$")
    numbers = defaultdict(set)
    for name in variables.stored:
        if match := inner.match(name):
            numbers[match[1]].add(int(match[2] or 0))
    aliases = tuple(
        (rf"^{re.escape(layer)}/dense{f'_{number}' if number else ''}/", f"{layer}/{place}/")
        for layer, found in numbers.items()
        for place, number in enumerate(sorted(found))
    )
    return variables.renamed(aliases)


def _config(variables: Variables, package: Package) -> BertConfig:
    """From bert_config.json and from the config of the saved model; the sizes are those of the arrays."""
    data: dict[str, Any] = {"hidden_act": "gelu", "layer_norm_eps": package.epsilon}
    data |= read_json(variables.folder / CONFIG) | sizes(package.encoder, variables, package.name)
    for layer in variables.layers.values():
        names = _SETTINGS.get(layer["class_name"], {})
        data |= {ours: layer["config"][key] for key, ours in names.items() if layer["config"].get(key)}
    act = data["hidden_act"][0] if isinstance(data["hidden_act"], list) else data["hidden_act"]
    data["hidden_act"] = {"gelu": package.gelu, "gelu_exact": "gelu_erf"}.get(act, act)
    if not data.get("num_attention_heads"):
        raise FileNotFoundError(
            f"{variables.path} holds only weights, which do not show the number of attention heads. Copy the "
            f"model's {CONFIG} into the same folder. Received: no {CONFIG} in {variables.folder}"
        )
    return BertConfig.from_dict(data, source=str(variables.path))


def _kind(layer: Any, layers: dict[str, Any], package: Package, last: str) -> tuple[str, bool] | None:
    """The head that a Dense layer on BERT's output is, and whether its labels are independent; None for any other."""
    before = layer
    try:
        for _ in layers:
            ((before,),) = [[layers[source[0]] for source in node] for node in before["inbound_nodes"]]
            if before["class_name"] != "Dropout":
                break
        activation, units = layer["config"]["activation"], layer["config"]["units"]
        if layer["class_name"] != "Dense" or activation not in ("softmax", "linear", "sigmoid"):
            return None
        if before["config"]["name"] == package.pooler and (units > 1 or activation == "linear"):
            return "regressor" if units == 1 else "classifier", activation == "sigmoid"
        on_tokens = last in (before["config"]["name"], before["class_name"])
        return ("tagger", False) if on_tokens and units > 1 and activation != "sigmoid" else None
    except (IndexError, KeyError, TypeError, ValueError):  # it has several inputs, or is no layer that Keras wrote
        return None
