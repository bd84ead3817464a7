"""Bert with a vocabulary: set, saved, and the attention between pieces; runs on every backend."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.bert import Bert
from tests.parity.oracles import array, randomize
from tests.small_bert import CONFIG


@pytest.fixture
def bert():
    return randomize(Bert(CONFIG))


@pytest.fixture
def preprocessor():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"]
    return keras_bert.Preprocessor(keras_bert.Vocabulary(words), seq_length=16)


def test_a_vocabulary_can_be_given_later_and_survives_saving(bert, preprocessor, tmp_path):
    with pytest.raises(ValueError, match="no vocabulary"):
        bert.preprocessor  # noqa: B018
    bert.preprocessor = preprocessor
    assert bert.preprocessor is preprocessor
    assert preprocessor not in bert.layers
    bert.save(tmp_path / "bert.keras")
    again = keras.models.load_model(tmp_path / "bert.keras")
    assert again.preprocessor.get_config() == preprocessor.get_config()
    np.testing.assert_allclose(again.embed(["a b", ""]), bert.embed(["a b", ""]), atol=1e-6)
    again.preprocessor = None
    with pytest.raises(ValueError, match="no vocabulary"):
        again.embed(["a"])


def test_attention_maps_by_hand(bert, preprocessor):
    bert.preprocessor = preprocessor
    found = bert.attention(["a b c", "c"])
    assert found.pieces == [["[CLS]", "a", "b", "c", "[SEP]"], ["[CLS]", "c", "[SEP]"]]
    assert found.maps.shape == (2, 2, 2, 5, 5)
    np.testing.assert_allclose(found.maps[:, 0].sum(-1), 1, atol=1e-6)
    assert not found.maps[:, 1, :, 3:].any()
    assert not found.maps[:, 1, :, :, 3:].any()

    # The second block of the second text in numpy, from what the first block gave.
    inputs = {name: keras.ops.convert_to_numpy(x)[1:, :3] for name, x in preprocessor(["a", "c"]).items()}
    x = array(bert(inputs)["encoder_outputs"][0])[0]  # [S, H]
    kernel, bias = (array(w) for w in bert.get_layer("layer_1_attention_qkv").weights)
    query, key, _ = np.moveaxis((x @ kernel + bias).reshape(3, 3, 2, 4), 1, 0)  # each [S, A, D]
    scores = np.exp(np.einsum("iad,jad->aij", query, key) / 2)  # [A, S, S]
    np.testing.assert_allclose(found.maps[1, 1, :, :3, :3], scores / scores.sum(-1, keepdims=True), atol=1e-5)


def test_attention_of_one_text_a_pair_and_none(bert, preprocessor):
    bert.preprocessor = preprocessor
    assert bert.attention("a").maps.shape == (2, 1, 2, 3, 3)
    one = Bert(dataclasses.replace(CONFIG, num_hidden_layers=1), preprocessor)
    for layer in one.layers:
        layer.set_weights(bert.get_layer(layer.name).get_weights())
    np.testing.assert_allclose(one.attention("a").maps, bert.attention("a").maps[:1], atol=1e-6)
    assert bert.attention(("a", "b c")).pieces == [["[CLS]", "a", "[SEP]", "b", "c", "[SEP]"]]
    with pytest.raises(ValueError, match="at least one text"):
        bert.attention([])
    bert.preprocessor = keras_bert.Preprocessor(preprocessor.vocabulary, seq_length=32)
    with pytest.raises(ValueError, match="model's 16 positions"):
        bert.attention("a " * 30)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_attention_maps(dtype):
    pytest.importorskip("tensorflow_text")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "man"]
    preprocessor = keras_bert.Preprocessor(keras_bert.Vocabulary(words), seq_length=12)
    bert = randomize(Bert(CONFIG, preprocessor, dtype=dtype))
    before = bert.attention(["the man", "man"])
    assert before.pieces == [["[CLS]", "the", "man", "[SEP]"], ["[CLS]", "man", "[SEP]"]]
    assert before.maps.shape == (2, 2, 2, 4, 4)
    assert before.maps[:, 0].sum(-1) == pytest.approx(np.ones((2, 2, 4)), abs=0.02)
    assert (before.maps[:, 1, :, 3] == 0).all()
    assert (before.maps[:, 1, :, :, 3] == 0).all()
    bert.enable_lora(2)
    layer = bert.get_layer("layer_0_attention_qkv")
    layer.lora_kernel_b.assign(keras.random.normal(layer.lora_kernel_b.shape))
    assert np.abs(bert.attention(["the man", "man"]).maps - before.maps).max() > 1e-4


def test_texts_become_arrays_of_the_backend(preprocessor):
    """But within tf.data, where all is TensorFlow's."""
    import tensorflow as tf

    packed = preprocessor(["a", "a a a"])
    assert all(keras.ops.is_tensor(value) for value in packed.values())
    assert keras.backend.standardize_dtype(packed["input_mask"].dtype) == "int32"
    assert keras.ops.convert_to_numpy(packed["input_word_ids"])[:, :5].tolist() == [[2, 4, 3, 0, 0], [2, 4, 4, 4, 3]]
    assert keras.ops.is_tensor(preprocessor.is_cut(["a"]))
    rows = list(tf.data.Dataset.from_tensor_slices(["a"]).batch(1).map(preprocessor))
    assert rows[0]["input_word_ids"].numpy()[:, :4].tolist() == [[2, 4, 3, 0]]


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="where text goes into functional models")
def test_symbolic_text_needs_tensorflow(preprocessor):
    with pytest.raises(ValueError, match="only on the TensorFlow backend"):
        preprocessor(keras.Input((), dtype="string"))
