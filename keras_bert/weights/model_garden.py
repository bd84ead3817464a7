"""Model Garden's TF2 checkpoints and TF-Hub's SavedModels of BERT, read.

Both hold an object graph that keeps each variable's name; the names are what the releases have in common.
"""

from pathlib import Path

from keras_bert.config import CONFIG, BertConfig
from keras_bert.text.rules import TextRules
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights import tensor_bundle
from keras_bert.weights.checkpoint import Checkpoint, Head
from keras_bert.weights.keras_variables import Variables, sizes
from keras_bert.weights.tables import Naming, Row, Table, read_all
from keras_bert.weights.tokenizer_files import read_tokenizer, rules_of

_NAMES = Naming()
_dense, _norm = _NAMES.dense, _NAMES.norm
_LAYER = "transformer/layer_{i}"
_ATTENTION = f"{_LAYER}/self_attention"
ENCODER: Table = (
    Row("word_embeddings/embeddings", "word_embeddings/embeddings"),
    Row("position_embedding/embeddings", "position_embeddings/embeddings"),
    Row("type_embeddings/embeddings", "type_embeddings/embeddings"),
    *_norm("embeddings/layer_norm", "embeddings_norm"),
    *_dense(f"{_ATTENTION}/query", "layer_{i}_attention_qkv", heads=-1, part=0),
    *_dense(f"{_ATTENTION}/key", "layer_{i}_attention_qkv", heads=-1, part=1),
    *_dense(f"{_ATTENTION}/value", "layer_{i}_attention_qkv", heads=-1, part=2),
    *_dense(f"{_ATTENTION}/attention_output", "layer_{i}_attention_output", heads=0),
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
# Poolers of single heads, which were trained in place of the encoder's.
POOLERS = ("next_sentence/pooler_dense", "sentence_prediction/pooler_dense")
ALIASES = (  # a pattern in a variable's name, and what the tables have instead
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
_AMBIGUOUS = "cls/predictions/transform/logits/"  # the output of NSP, of spans and of tags have this one name


def read_variables(variables: Variables) -> Checkpoint:
    """The model of a file; without a config the shapes show the sizes, and GELU is the tanh form."""
    path, folder = variables.path, variables.folder
    variables = variables.renamed(ALIASES)
    stored, left_out = dict(variables.stored), dict(variables.left_out)
    config = _config(variables)
    if "cls/predictions/output_bias/bias" in stored:  # of a pretrainer, whose other output is the next sentence's
        stored = {name.replace(_AMBIGUOUS, "next_sentence/logits/"): entry for name, entry in stored.items()}
    for pooler in POOLERS:
        if f"{pooler}/kernel" in stored:
            for weight in ("kernel", "bias"):
                if stored.pop(f"pooler_transform/{weight}", None):
                    left_out[f"pooler_transform/{weight}"] = f"it was never trained; {pooler} was used instead"
                stored[f"pooler_transform/{weight}"] = stored.pop(f"{pooler}/{weight}")
    for name in [name for name in stored if name.startswith(_AMBIGUOUS)]:
        del stored[name]
        left_out[name] = "it is of a head whose task the checkpoint does not name"
    weights, heads, lacking = read_all(ENCODER, HEADS, stored, config, path, _outside(variables) & set(stored))
    vocabulary, rules = _tokenizer(folder) if variables.saved_model else read_tokenizer(folder)
    return Checkpoint(
        str(path),
        "SavedModel" if variables.saved_model else "Model Garden checkpoint",
        config,
        weights,
        heads={name: Head(arrays) for name, arrays in heads.items()},
        vocabulary=vocabulary,
        rules=rules,
        left_out=left_out | lacking,
    )


def _outside(variables: Variables) -> set[str]:
    """The variables of other layers than that which holds all of the encoder, such as a hub.KerasLayer."""
    places = {place for name, place in variables.places.items() if name.startswith(("word_emb", "transformer/"))}
    return {name for name, place in variables.places.items() if len(places) == 1 and place not in places}


def _config(variables: Variables) -> BertConfig:
    if (variables.folder / CONFIG).is_file():
        return BertConfig.from_json(variables.folder / CONFIG)
    found = sizes(ENCODER, variables, "Model Garden")
    query = variables.stored.get("transformer/layer_0/self_attention/query/bias")  # [A, D]
    return BertConfig(**found, num_attention_heads=query.shape[0] if query else 1)


def _tokenizer(folder: Path) -> tuple[Vocabulary | None, TextRules]:
    """Of a SavedModel, which has its vocabulary as an asset and one rule as the variable do_lower_case."""
    assets = folder / "assets"
    path = next((assets / name for name in ("vocab.txt", "vocabulary.txt") if (assets / name).is_file()), None)
    if path is None:
        return None, TextRules()
    vocabulary = Vocabulary.from_file(path)
    reader = tensor_bundle.reader(folder / "variables" / "variables")
    key = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
    if not reader.has_tensor(key):
        return vocabulary, rules_of(vocabulary, str(folder))
    return vocabulary, TextRules(lowercase=bool(reader.get_tensor(key)))
