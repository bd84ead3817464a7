"""The cases of google-research/bert: tokenization_test, modeling_test and optimization_test."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import AdamW, Bert, BertConfig
from tests.foreign.pieces import preprocessor, words

PIECES = ["[UNK]", "[CLS]", "[SEP]", "want", "##want", "##ed", "wa", "un", "runn", "##ing"]

# === tokenization_test ===


def test_full_tokenizer():
    tokenizer = preprocessor([*PIECES, ","])
    assert tokenizer.tokens("UNwant\u00e9d,running") == ["un", "##want", "##ed", ",", "runn", "##ing"]
    assert tokenizer.tokenize(["UNwant\u00e9d,running"]).values.values.numpy().tolist() == [7, 4, 5, 10, 8, 9]


@pytest.mark.parametrize(
    ("text", "lowercase", "expected"),
    [
        ("ah\u535a\u63a8zz", True, ["ah", "\u535a", "\u63a8", "zz"]),
        (" \tHeLLo!how  \n Are yoU?  ", True, ["hello", "!", "how", "are", "you", "?"]),
        ("H\u00e9llo", True, ["hello"]),
        (" \tHeLLo!how  \n Are yoU?  ", False, ["HeLLo", "!", "how", "Are", "yoU", "?"]),
    ],
)
def test_basic_tokenizer(text, lowercase, expected):
    assert words(text, expected, lowercase=lowercase) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("unwanted running", ["un", "##want", "##ed", "runn", "##ing"]),
        ("unwantedX running", ["[UNK]", "runn", "##ing"]),
    ],
)
def test_wordpiece_tokenizer(text, expected):
    assert preprocessor(PIECES).tokens(text) == expected


def test_convert_tokens_to_ids():
    vocabulary = preprocessor(PIECES).vocabulary
    assert [vocabulary[token] for token in ("un", "##want", "##ed", "runn", "##ing")] == [7, 4, 5, 8, 9]


@pytest.mark.parametrize(
    ("characters", "split"),
    [
        (" \t\r\n\u00a0", lambda _: ["a", "b"]),  # white space
        ("\u0005", lambda _: ["ab"]),  # control
        ("-$`.", lambda character: ["a", character, "b"]),  # punctuation
        ("A\U0001f4a9", lambda character: [f"a{character}b"]),  # none of these
    ],
)
def test_kinds_of_characters(characters, split):
    for character in characters:
        expected = split(character)
        assert words(f"a{character}b", expected, lowercase=False) == expected


# === modeling_test ===


def test_model():
    """Shapes, and that every tensor is used: each weight has a gradient."""
    config = BertConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=5,
        num_attention_heads=4,
        intermediate_size=37,
        type_vocab_size=16,
    )
    bert = Bert(config)
    rng = np.random.default_rng(0)
    inputs = {
        "input_word_ids": rng.integers(0, 99, (13, 7)),
        "input_mask": rng.integers(0, 2, (13, 7)),
        "input_type_ids": rng.integers(0, 16, (13, 7)),
    }
    with tf.GradientTape() as tape:
        outputs = bert({name: x.astype("int32") for name, x in inputs.items()}, training=True)
        loss = tf.add_n([tf.reduce_sum(x**2) for x in tf.nest.flatten(outputs)])
    assert outputs["sequence_output"].shape == (13, 7, 32)
    assert outputs["pooled_output"].shape == (13, 32)
    assert len(outputs["encoder_outputs"]) == 5
    assert all(gradient is not None for gradient in tape.gradient(loss, bert.trainable_variables))


def test_config_to_json(tmp_path):
    BertConfig(vocab_size=99, hidden_size=37, num_attention_heads=1).to_json(tmp_path / "bert_config.json")
    found = json.loads((tmp_path / "bert_config.json").read_text())
    assert (found["vocab_size"], found["hidden_size"]) == (99, 37)


# === optimization_test ===


def test_adam():
    w = keras.Variable([0.1, -0.2, -0.1])
    optimizer = AdamW(0.2, weight_decay=0.0)
    for _ in range(100):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.constant([0.4, 0.2, -0.5]) - w.value))
        optimizer.apply(tape.gradient(loss, [w.value]), [w])
    np.testing.assert_allclose(w, [0.4, 0.2, -0.5], rtol=1e-2, atol=1e-2)
