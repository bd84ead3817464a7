"""The cases of Model Garden's nlp/modeling: bert_encoder, the four models on it, and text_layers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import (
    Bert,
    BertConfig,
    Pretrainer,
    QuestionAnswerer,
    TextClassifier,
    TextRegressor,
    TokenTagger,
)
from keras_bert.inputs import INPUTS
from keras_bert.text.packing import Packer
from tests.foreign.pieces import preprocessor

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 37,
}
CALL = dict(zip(INPUTS, np.array([[[1, 1], [2, 2]], [[1, 1], [1, 0]], [[1, 1], [2, 2]]], "int32"), strict=True))


def symbolic(length):
    return {name: keras.Input((length,), dtype="int32", name=name) for name in INPUTS}


def encoder(**changes):
    return Bert(BertConfig(**{**SMALL, "type_vocab_size": 16, **changes}))


# === bert_encoder_test ===


def test_network_creation():
    bert = encoder()
    outputs = bert(symbolic(21))
    assert outputs["sequence_output"].shape == (None, 21, 32)
    assert outputs["pooled_output"].shape == (None, 32)
    assert [x.shape for x in outputs["encoder_outputs"]] == [(None, 21, 32)] * 3
    assert {x.dtype for x in keras.tree.flatten(outputs)} == {"float32"}
    assert isinstance(bert.get_layer("pooler"), keras.layers.Dense)
    assert bert.word_embeddings(keras.Input((21,), dtype="int32")).shape == (None, 21, 32)


def test_attention_scores():
    bert = Bert(BertConfig(**{**SMALL, "num_attention_heads": 4}), preprocessor(["a"]))
    maps = bert.attention(["a " * 19] * 2).maps
    assert maps.shape == (3, 2, 4, 21, 21)
    assert maps.dtype == np.float32


def test_mixed_float16():
    outputs = Bert(BertConfig(**SMALL), dtype="mixed_float16")(symbolic(21))
    assert outputs["sequence_output"].shape == (None, 21, 32)
    assert outputs["pooled_output"].shape == (None, 32)
    assert outputs["pooled_output"].dtype == "float16"


@pytest.mark.parametrize("positions", [21, 128])
def test_network_invocation(positions):
    rng = np.random.default_rng(0)
    sizes = dict(zip(INPUTS, (57, 2, 7), strict=True))
    bert = encoder(vocab_size=57, type_vocab_size=7, max_position_embeddings=positions)
    inputs = symbolic(21)
    outputs = bert(inputs)
    model = keras.Model(inputs, [outputs["sequence_output"], outputs["pooled_output"]])
    given = {name: rng.integers(0, size, (3, 21)).astype("int32") for name, size in sizes.items()}
    assert [x.shape for x in model.predict(given, verbose=0)] == [(3, 21, 32), (3, 32)]


def test_serialize_deserialize(tmp_path):
    bert = encoder(
        max_position_embeddings=21,
        type_vocab_size=12,
        intermediate_size=1223,
        hidden_act="gelu_erf",
        hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.22,
    )
    assert json.loads(bert.to_json())
    bert.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.get_config() == bert.get_config()
    assert all(np.array_equal(*pair) for pair in zip(again.get_weights(), bert.get_weights(), strict=True))


# === bert_classifier_test, bert_token_classifier_test, bert_span_labeler_test, bert_pretrainer_test ===

MODELS = {
    "1 class": (lambda bert: TextRegressor(bert), (None, 1)),
    "2 classes": (lambda bert: TextClassifier(bert, labels=("a", "b")), (None, 2)),
    "3 classes": (lambda bert: TextClassifier(bert, labels=("a", "b", "c")), (None, 3)),
    "tags": (lambda bert: TokenTagger(bert, labels=("a", "b", "c")), (None, 512, 3)),
    "spans": (lambda bert: QuestionAnswerer(bert), (None, 2, 512)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    """Created on symbolic inputs, called with ids, and made again from their config."""
    make, shape = MODELS[name]
    model = make(encoder(num_hidden_layers=2))
    assert model(symbolic(512)).shape == shape
    assert model(CALL).shape == tuple({None: 2, 512: 2}.get(axis, axis) for axis in shape)
    again = type(model).from_config(model.get_config())
    assert json.loads(model.to_json())
    assert again.get_config() == model.get_config()


@pytest.mark.parametrize("nsp", [True, False])
def test_pretrainer(nsp):
    model = Pretrainer(encoder(num_hidden_layers=2), nsp=nsp)
    outputs = model({**symbolic(512), "masked_lm_positions": keras.Input((20,), dtype="int32")})
    expected = {"mlm_logits": (None, 20, 100), "nsp_logits": (None, 2)}
    assert {name: x.shape for name, x in outputs.items()} == {
        name: shape for name, shape in expected.items() if nsp or name == "mlm_logits"
    }
    positions = np.array([[1, 1], [1, 0]], "int32")
    assert model({**CALL, "masked_lm_positions": positions})["mlm_logits"].shape == (2, 2, 100)
    assert Pretrainer.from_config(model.get_config()).get_config() == model.get_config()
    assert json.loads(model.to_json())


# === text_layers_test ===

UNCASED = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "d", "##ef", "abc", "xy"]


@pytest.mark.parametrize(
    ("vocabulary", "lowercase", "texts", "ids", "starts", "ends"),
    [
        (
            UNCASED,
            True,
            ["abc def", "ABC DEF d"],
            [[[6], [4, 5]], [[6], [4, 5], [4]]],
            [[[0], [4, 5]], [[0], [4, 5], [8]]],
            [[[3], [5, 7]], [[3], [5, 7], [9]]],
        ),
        (
            [*UNCASED[:-1], "ABC"],
            False,
            ["abc def", "ABC DEF"],
            [[[6], [4, 5]], [[7], [1]]],
            [[[0], [4, 5]], [[0], [4]]],
            [[[3], [5, 7]], [[3], [7]]],
        ),
    ],
)
def test_bert_tokenizer(vocabulary, lowercase, texts, ids, starts, ends):
    tokenizer = preprocessor(vocabulary, lowercase=lowercase)
    assert tokenizer.tokenize(texts).to_list() == ids
    assert [part.to_list() for part in tokenizer.tokenize_with_offsets(texts)] == [ids, starts, ends]
    assert len(tokenizer.vocabulary) == 8


def test_special_tokens():
    found = preprocessor(["foo", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "xy"]).vocabulary.special_tokens
    assert found == {"[PAD]": 1, "[UNK]": 2, "[CLS]": 3, "[SEP]": 4, "[MASK]": 5}
    assert "[MASK]" not in preprocessor(["[PAD]", "[CLS]", "[SEP]"]).vocabulary.special_tokens


ONE = [[11, 12, 13], [*range(21, 31)]]
A = [[[111], [112, 113]], [[121, 122, 123], [124, 125, 126], [127, 128]]]
B = [[[211, 212], [213]], [[221, 222], [223, 224, 225], [226, 227, 228]]]
C = [[[311, 312], [313]], [[321, 322], [323, 324, 325], [326, 327, 328]]]


@pytest.mark.parametrize(
    ("truncation", "segments", "expected"),
    [
        (
            truncation,
            [ONE],
            ["1001 11 12 13 1002 999 999 999 999 999", "1001 21 22 23 24 25 26 27 28 1002"],
        )
        for truncation in ("longest_first", "waterfall")
    ]
    + [
        (
            "longest_first",
            [A, B],
            ["1001 111 112 113 1002 211 212 213 1002 999", "1001 121 122 123 124 1002 221 222 223 1002"],
        ),
        (
            "longest_first",
            [A, B, C],
            ["1001 111 112 1002 211 212 1002 311 312 1002", "1001 121 122 1002 221 222 1002 321 322 1002"],
        ),
        (
            "waterfall",
            [A, B],
            ["1001 111 112 113 1002 211 212 213 1002 999", "1001 121 122 123 124 125 126 127 1002 1002"],
        ),
        (
            "waterfall",
            [A, [[[211], [212]], B[1]], C],
            ["1001 111 112 113 1002 211 212 1002 311 1002", "1001 121 122 123 124 125 126 1002 1002 1002"],
        ),
    ],
)
def test_pack_inputs(truncation, segments, expected):
    rows = [tf.ragged.constant(segment, tf.int32) for segment in segments]
    rows = [row.merge_dims(1, 2) if row.ragged_rank == 2 else row for row in rows]
    packed = Packer(1001, 1002, 999, truncation).pack(rows, 10)
    expected = np.array([row.split() for row in expected], "int32")
    np.testing.assert_array_equal(packed["input_word_ids"], expected)
    np.testing.assert_array_equal(packed["input_mask"], expected != 999)
    ends = np.cumsum(expected == 1002, 1) - (expected == 1002)  # the [SEP]s before a position
    np.testing.assert_array_equal(packed["input_type_ids"], np.where(expected == 999, 0, ends))
