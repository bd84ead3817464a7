"""The text SavedModel of a Bert against `bert.embed`."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.exports.text_part import vectors_of_texts
from keras_bert.tasks.signature import pack_texts
from keras_bert.vectors import Pooling
from tests.exports.conftest import SEQ_LENGTH, make

TEXTS = ["w1 w2 É", "", "W3, w4!"]
LONG = "w1 " * SEQ_LENGTH


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(str(exported / "text" / "1"))


def test_embedding(loaded, bert):
    found = loaded.signatures["serving_default"](text=tf.constant(TEXTS))
    assert set(found) == {"embedding", "pooled_output", "truncated"}
    assert np.abs(found["embedding"] - bert.embed(TEXTS)).max() <= 1e-6
    assert np.abs(found["pooled_output"] - bert.embed(TEXTS, pooling="pooled")).max() <= 1e-6
    assert not found["truncated"].numpy().any()


def test_pairs(loaded, bert):
    pairs = (TEXTS, list(reversed(TEXTS)))
    found = loaded.signatures["pair"](text=tf.constant(pairs[0]), text_pair=tf.constant(pairs[1]))
    assert np.abs(found["embedding"] - bert.embed(pairs)).max() <= 1e-6


def test_long_texts(loaded, bert):
    found = loaded.signatures["serving_default"](text=tf.constant([LONG, "w1"]))
    assert found["truncated"].numpy().tolist() == [True, False]
    cut = bert.embed("w1 " * (SEQ_LENGTH - 2))
    assert np.abs(found["embedding"][:1] - cut).max() <= 1e-6


def test_short_batches_are_short(bert):
    for texts, width in ((["w1"], 8), (["w1", LONG], SEQ_LENGTH)):
        rows, _ = pack_texts(bert.preprocessor, [tf.constant(texts)], SEQ_LENGTH)
        assert rows["input_word_ids"].shape == (len(texts), width)


def test_call(loaded, bert):
    """As TF-Hub's API for text embeddings wants it: float32 [B, D]."""
    found = loaded(tf.constant(TEXTS))
    assert found.dtype == tf.float32
    assert np.abs(found - bert.embed(TEXTS)).max() <= 1e-6
    assert loaded.variables
    assert loaded.trainable_variables == loaded.regularization_losses == []


def test_empty_batch(loaded):
    found = loaded.signatures["serving_default"](text=tf.constant([], tf.string))
    assert found["embedding"].shape == (0, 8)


def test_bytes_that_are_not_utf8(loaded, bert):
    found = loaded.signatures["serving_default"](text=tf.constant([b"w1 \xff w2"]))
    assert np.abs(found["embedding"] - bert.embed(["w1  w2"])).max() <= 1e-6


def test_pooling_of_the_model(tmp_path):
    bert = make(num_hidden_layers=1)
    bert.pooling = Pooling("cls", normalize=True)
    bert.preprocessor.vocabulary.save(tmp_path / "vocab.txt")
    _, signatures = vectors_of_texts(bert, SEQ_LENGTH, tmp_path / "vocab.txt")
    found = signatures["serving_default"](tf.constant(TEXTS))["embedding"]
    assert np.abs(found - bert.embed(TEXTS, pooling="cls", normalize=True)).max() <= 1e-6
