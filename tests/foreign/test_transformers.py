"""The cases of transformers' tests/models/bert: tokenizer, and the shapes and round trips of each model."""

import json

import keras
import numpy as np
import pytest

from keras_bert import (
    Bert,
    BertConfig,
    MultipleChoice,
    Pretrainer,
    QuestionAnswerer,
    TextClassifier,
    TokenTagger,
)
from keras_bert.inputs import INPUTS
from tests.foreign.pieces import preprocessor, words

PIECES = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "want", "##want", "##ed", "wa", "un", "runn", "##ing", ","]

# === test_tokenization_bert ===


def test_full_tokenizer():
    tokenizer = preprocessor([*PIECES, "low", "lowest"])
    assert tokenizer.tokens("UNwant\u00e9d,running") == ["un", "##want", "##ed", ",", "runn", "##ing"]
    ids = tokenizer.tokenize(["UNwant\u00e9d,running"])
    assert ids.values.values.numpy().tolist() == [9, 6, 7, 12, 10, 11]
    assert tokenizer.detokenize(ids).numpy().tolist() == [b"unwanted , running"]


@pytest.mark.parametrize(
    ("text", "lowercase", "strip_accents", "expected"),
    [
        ("ah\u535a\u63a8zz", True, None, ["ah", "\u535a", "\u63a8", "zz"]),
        (" \tHeLLo!how  \n Are yoU?  ", True, None, ["hello", "!", "how", "are", "you", "?"]),
        ("H\u00e9llo", True, None, ["hello"]),
        (" \tHäLLo!how  \n Are yoU?  ", True, False, ["hällo", "!", "how", "are", "you", "?"]),
        ("H\u00e9llo", True, False, ["h\u00e9llo"]),
        (" \tHäLLo!how  \n Are yoU?  ", True, True, ["hallo", "!", "how", "are", "you", "?"]),
        ("H\u00e9llo", True, True, ["hello"]),
        (" \tHäLLo!how  \n Are yoU?  ", True, None, ["hallo", "!", "how", "are", "you", "?"]),
        (" \tHeLLo!how  \n Are yoU?  ", False, None, ["HeLLo", "!", "how", "Are", "yoU", "?"]),
        (" \tHäLLo!how  \n Are yoU?  ", False, False, ["HäLLo", "!", "how", "Are", "yoU", "?"]),
        (" \tHäLLo!how  \n Are yoU?  ", False, True, ["HaLLo", "!", "how", "Are", "yoU", "?"]),
        ("a\n'll !!to?'d of, can't.", True, None, ["a", *"'", "ll", *"!!", "to", *"?'", "d", "of", ",", "can", *"'t."]),
        ("\u200e\u200f", True, None, []),
    ],
)
def test_basic_tokenizer(text, lowercase, strip_accents, expected):
    assert words(text, expected, lowercase=lowercase, strip_accents=strip_accents) == expected


def test_special_tokens_are_not_split():
    text = " \tHeLLo!how  \n Are yoU? [UNK]"
    expected = ["HeLLo", "!", "how", "Are", "yoU", "?", "[UNK]"]
    assert words(text, expected, lowercase=False, special_tokens_in_text=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("unwanted running", ["un", "##want", "##ed", "runn", "##ing"]),
        ("unwantedX running", ["[UNK]", "runn", "##ing"]),
        ("Test", ["[UNK]"]),
        ("\u00ad", []),
        ("test", ["[UNK]"]),
    ],
)
def test_wordpiece_tokenizer(text, expected):
    assert preprocessor(PIECES).tokens(text) == expected


def test_sequence_builders():
    """[CLS] a [SEP], and [CLS] a [SEP] b [SEP]."""
    builder = preprocessor(["sequence", "builders", "multi", "-", "build"], seq_length="longest")
    start, end = builder.vocabulary["[CLS]"], builder.vocabulary["[SEP]"]
    text, text_2 = ([0, 1], [2, 3, 0, 4])
    for texts, expected in (
        ("sequence builders", [start, *text, end]),
        (("sequence builders", "multi-sequence build"), [start, *text, end, *text_2, end]),
    ):
        packed = builder(texts)
        assert packed["input_word_ids"].numpy()[packed["input_mask"].numpy() == 1].tolist() == expected


@pytest.mark.parametrize(
    ("lowercase", "expected"),
    [
        (False, "A , na ##ï ##ve [MASK] Allen ##NL ##P sentence ."),
        (True, "a , naive [MASK] allen ##nl ##p sentence ."),
    ],
)
def test_offsets_with_special_characters(lowercase, expected):
    text, expected = "A, naïve [MASK] AllenNLP sentence.", expected.split()
    tokenizer = preprocessor(expected, lowercase=lowercase, special_tokens_in_text=True)
    ids, starts, ends = (part.values.values.numpy().tolist() for part in tokenizer.tokenize_with_offsets([text]))
    assert [tokenizer.vocabulary.token(id) for id in ids] == expected
    places = [(0, 1), (1, 2), (3, 5), (5, 6), (6, 8), (9, 15), (16, 21), (21, 23), (23, 24), (25, 33), (33, 34)]
    if lowercase:
        places[2:5] = [(3, 8)]
    assert list(zip(starts, ends, strict=True)) == places


@pytest.mark.parametrize(("split_cjk", "expected"), [(True, ["的", "人", "有"]), (False, ["的", "##人", "##有"])])
def test_chinese_characters(split_cjk, expected):
    tokenizer = preprocessor(["的", "人", "有", "##人", "##有"], split_cjk=split_cjk)
    assert tokenizer.tokens("的人有") == expected


# === test_modeling_bert ===

CONFIG = BertConfig(
    vocab_size=99,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=37,
    hidden_act="gelu_erf",
    type_vocab_size=16,
)
LABELS = ("a", "b", "c")


def inputs(*shape):
    rng = np.random.default_rng(0)
    sizes = zip(INPUTS, (99, 2, 16), strict=True)
    return {name: rng.integers(0, size, shape).astype("int32") for name, size in sizes}


MODELS = {
    "BertModel": lambda bert: bert,
    "BertForMaskedLM": lambda bert: Pretrainer(bert, nsp=False),
    "BertForPreTraining": Pretrainer,
    "BertForQuestionAnswering": QuestionAnswerer,
    "BertForSequenceClassification": lambda bert: TextClassifier(bert, labels=LABELS),
    "BertForTokenClassification": lambda bert: TokenTagger(bert, labels=LABELS),
    "BertForMultipleChoice": lambda bert: MultipleChoice(bert, choices=4),
}
SHAPES = {
    "BertModel": {"sequence_output": (13, 7, 32), "pooled_output": (13, 32)},
    "BertForMaskedLM": {"mlm_logits": (13, 7, 99)},
    "BertForPreTraining": {"mlm_logits": (13, 7, 99), "nsp_logits": (13, 2)},
    "BertForQuestionAnswering": (13, 2, 7),
    "BertForSequenceClassification": (13, 3),
    "BertForTokenClassification": (13, 7, 3),
    "BertForMultipleChoice": (13, 4),
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name, tmp_path):
    """Its shapes; the same outputs after it is saved and loaded; a config that is JSON; and whole gradients."""
    import tensorflow as tf

    model = MODELS[name](Bert(CONFIG))
    given = inputs(13, 4, 7) if name == "BertForMultipleChoice" else inputs(13, 7)
    if isinstance(model, Pretrainer):
        given["masked_lm_positions"] = np.tile(np.arange(7, dtype="int32"), (13, 1))
    with tf.GradientTape() as tape:
        outputs = model(given, training=True)
        loss = tf.add_n([tf.reduce_sum(x**2) for x in tf.nest.flatten(outputs)])
    assert all(gradient is not None for gradient in tape.gradient(loss, model.trainable_variables))
    before = model(given)
    if isinstance(SHAPES[name], dict):
        assert {key: before[key].shape for key in SHAPES[name]} == SHAPES[name]
    else:
        assert before.shape == SHAPES[name]
    assert json.loads(model.to_json())
    model.save(tmp_path / "model.keras")
    after = keras.models.load_model(tmp_path / "model.keras")(given)
    for x, y in zip(keras.tree.flatten(after), keras.tree.flatten(before), strict=True):
        np.testing.assert_array_equal(x, y)


def test_config(tmp_path):
    CONFIG.to_json(tmp_path / "bert_config.json")
    assert BertConfig.from_json(tmp_path / "bert_config.json") == CONFIG
    for name in ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size"):
        assert getattr(CONFIG, name) == json.loads((tmp_path / "bert_config.json").read_text())[name]


def test_hidden_states_and_attentions():
    """A state after each block, and maps whose rows are probabilities."""
    bert = Bert(CONFIG, preprocessor(["a", "b"]))
    assert [x.shape for x in bert(inputs(13, 7))["encoder_outputs"]] == [(13, 7, 32)] * 2
    maps = bert.attention(["a b", "b a"]).maps
    assert maps.shape == (2, 2, 4, 4, 4)
    np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=1e-6)


def test_resized_embeddings():
    """Ten more pieces: the old rows stay, and ids up to the new end are accepted."""
    tokens = [f"w{i}" for i in range(95)]
    old = preprocessor(tokens)
    bert = Bert(CONFIG, old)
    new = preprocessor([*old.vocabulary.tokens, *(f"new{i}" for i in range(10))])
    more = bert.resize(vocabulary=new.vocabulary)
    assert more.config.vocab_size == 109
    np.testing.assert_array_equal(more.word_embeddings.embeddings[:99], bert.word_embeddings.embeddings)
    ids = {**inputs(13, 7), "input_word_ids": np.full((13, 7), 108, "int32")}
    assert more(ids)["sequence_output"].shape == (13, 7, 32)


def test_determinism():
    bert = Bert(CONFIG)
    first, second = (bert(inputs(13, 7))["sequence_output"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
