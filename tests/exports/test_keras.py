"""Exports inside Keras models: `TFSMLayer` in Keras 3, `hub.KerasLayer` in tf_keras."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

TEXTS = ["w1 w2", "", "w3 w4 w5"]
LABELS = np.array([[0.0], [1.0], [0.0]], "float32")


@pytest.fixture(scope="module")
def hub():
    return pytest.importorskip("tensorflow_hub", reason="pip install 'tensorflow-hub' 'setuptools<81'")


@pytest.fixture
def tf_keras():
    return pytest.importorskip("tf_keras", reason="pip install tf_keras")


def _inputs(kind):
    return {
        name: kind((None,), dtype="int32", name=name) for name in ("input_word_ids", "input_mask", "input_type_ids")
    }


def test_in_keras_3(exported, bert, tmp_path):
    """Composed, trained, saved, and loaded after the export it was made of is gone."""
    shutil.copytree(exported, tmp_path / "copy")
    layer = keras.layers.TFSMLayer(str(tmp_path / "copy" / "encoder" / "1"), call_endpoint="__call__")
    inputs = _inputs(keras.Input)
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)["pooled_output"]))
    packed = bert.preprocessor(TEXTS)
    before = [weight.numpy() for weight in layer.trainable_weights]
    model.compile("sgd", "mse")
    model.fit(packed, LABELS, verbose=0)
    assert len(before) == len(bert.trainable_variables)
    assert all(np.abs(old - new).max() > 0 for old, new in zip(before, layer.trainable_weights, strict=True))
    expected = model(packed)
    model.export(str(tmp_path / "composed"), verbose=False)
    shutil.rmtree(tmp_path / "copy")
    again = tf.saved_model.load(str(tmp_path / "composed"))
    assert np.abs(again.serve(packed) - expected).max() <= 1e-6


def test_trained_with_adam_in_keras_3(exported, bert):
    """As docs/serving.md says: Keras 3.15 cannot name Adam's moments of any SavedModel inside the graph of `fit`."""
    layer = keras.layers.TFSMLayer(str(exported / "encoder" / "1"), call_endpoint="__call__")
    inputs = _inputs(keras.Input)
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)["pooled_output"]))
    before = [weight.numpy() for weight in layer.trainable_weights]
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    model.fit(bert.preprocessor(TEXTS), LABELS, verbose=0)
    assert all(np.abs(old - new).max() > 0 for old, new in zip(before, layer.trainable_weights, strict=True))


def test_adam_without_that_line(tmp_path):
    """Keras's own exports fail too, because TensorFlow ends each name in `:0`. Once this works, remove the advice."""
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).export(str(tmp_path / "1"), verbose=False)
    layer = keras.layers.TFSMLayer(str(tmp_path / "1"), call_endpoint="serve")
    inputs = keras.Input((2,))
    model = keras.Model(inputs, layer(inputs))
    model.compile("adam", "mse")
    with pytest.raises(ValueError, match="not a valid scope name"):
        model.fit(np.ones((1, 2)), np.ones((1, 1)), verbose=0)


def test_text_in_keras_3(exported, bert):
    layer = keras.layers.TFSMLayer(str(exported / "text" / "1"), call_endpoint="serving_default")
    assert np.abs(layer(tf.constant(TEXTS))["embedding"] - bert.embed(TEXTS)).max() <= 1e-6


def test_frozen_text_in_keras_3(exported):
    """Under a layer that is trained."""
    layer = keras.layers.TFSMLayer(str(exported / "text" / "1"), call_endpoint="serving_default", trainable=False)
    dense = keras.layers.Dense(1)
    dense.build((None, 8))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((dense(layer(tf.constant(TEXTS))["embedding"]) - LABELS) ** 2)
    assert all(np.abs(gradient).max() > 0 for gradient in tape.gradient(loss, dense.trainable_variables))


def test_frozen_text_in_tf_keras(hub, tf_keras, exported):
    text = tf_keras.layers.Input((), dtype=tf.string)
    embedding = hub.KerasLayer(str(exported / "text" / "1"), signature="serving_default", output_key="embedding")(text)
    model = tf_keras.Model(text, tf_keras.layers.Dense(1)(embedding))
    model.compile("adam", "mse")
    before = [weight.numpy() for weight in model.trainable_weights]
    model.fit(tf.constant(TEXTS), LABELS, verbose=0)
    assert all(np.abs(old - new).max() > 0 for old, new in zip(before, model.trainable_weights, strict=True))


def test_semantic_similarity(hub, exported, bert):
    """TF-Hub's tutorial of this name: the module is a function from texts to float32 [B, D]."""
    embed = hub.load(str(exported / "text" / "1"))
    similarity = np.inner(embed(TEXTS), embed(TEXTS))
    expected = bert.embed(TEXTS)
    assert np.abs(similarity - expected @ expected.T).max() <= 1e-5


def test_text_classification(hub, tf_keras, exported):
    """TF-Hub's tutorial of this name: the module is the first layer of a Sequential."""
    layer = hub.KerasLayer(str(exported / "text" / "1"), input_shape=[], dtype=tf.string, trainable=True)
    tf_keras.utils.set_random_seed(0)  # of some weights, no relu would be above 0
    model = tf_keras.Sequential([layer, tf_keras.layers.Dense(16, activation="relu"), tf_keras.layers.Dense(1)])
    assert model.output_shape == (None, 1)
    model.compile("adam", tf_keras.losses.BinaryCrossentropy(from_logits=True))
    before = [weight.numpy() for weight in model.trainable_weights]
    model.fit(tf.constant(TEXTS), LABELS, verbose=0)
    assert len(before) == 4  # the text's own weights stay as they are
    assert np.abs(before[2] - model.trainable_weights[2]).max() > 0


def test_trained_in_tf_keras(hub, tf_keras, exported, bert):
    encoder = hub.KerasLayer(str(exported / "encoder" / "1"), trainable=True)
    preprocess = hub.KerasLayer(str(exported / "preprocess" / "1"))
    text = tf_keras.layers.Input((), dtype=tf.string)
    logits = tf_keras.layers.Dense(1)(encoder(preprocess(text))["pooled_output"])
    model = tf_keras.Model(text, logits)
    assert len(encoder.trainable_weights) == len(bert.trainable_variables)
    before = [weight.numpy() for weight in encoder.trainable_weights]
    model.compile(tf_keras.optimizers.SGD(0.1), "mse")
    model.fit(tf.constant(TEXTS), LABELS, verbose=0)
    assert all(np.abs(old - new).max() > 0 for old, new in zip(before, encoder.trainable_weights, strict=True))


def test_frozen_in_tf_keras(hub, tf_keras, exported, bert):
    encoder = hub.KerasLayer(str(exported / "encoder" / "1"))
    packed = bert.preprocessor(TEXTS)
    expected = bert(packed)["pooled_output"]
    assert not encoder.trainable_weights
    assert np.abs(encoder(packed, training=True)["pooled_output"] - expected).max() <= 1e-6


@pytest.mark.parametrize("seq_length", [5, 20])
def test_pack_inputs_in_tf_keras(hub, tf_keras, exported, bert, seq_length):
    preprocess = hub.load(str(exported / "preprocess" / "1"))
    columns = [tf_keras.layers.Input((), dtype=tf.string) for _ in range(2)]
    tokenize = hub.KerasLayer(preprocess.tokenize)
    pack = hub.KerasLayer(preprocess.bert_pack_inputs, arguments={"seq_length": seq_length})
    model = tf_keras.Model(columns, pack([tokenize(column) for column in columns]))
    assert model.output["input_word_ids"].shape.as_list() == [None, seq_length]
    texts = [tf.constant(TEXTS), tf.constant(list(reversed(TEXTS)))]
    found = model(texts)
    expected = bert.preprocessor.pack([bert.preprocessor.tokenize(column) for column in texts], seq_length)
    for name, x in expected.items():
        np.testing.assert_array_equal(found[name], x)
