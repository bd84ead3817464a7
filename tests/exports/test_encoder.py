"""The encoder SavedModel against TF-Hub's contract and the model it was made of."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.exports.saved_functions import saved_model
from tests.exports.conftest import make
from tests.weights import small

INPUTS = {name: tf.constant(x) for name, x in small.INPUTS.items()}


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(str(exported / "encoder" / "1"))


def assert_close(found, expected, tolerance=1e-6):
    tf.nest.assert_same_structure(found, expected)
    for x, y in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        assert x.dtype == tf.float32
        assert np.abs(x - y).max() <= tolerance


def test_outputs(loaded, bert):
    found = loaded(INPUTS)
    assert set(found) == {"pooled_output", "sequence_output", "encoder_outputs", "default"}
    assert_close(found, bert(INPUTS))
    np.testing.assert_array_equal(found["default"], found["pooled_output"])
    assert len(found["encoder_outputs"]) == bert.config.num_hidden_layers


def test_signature(loaded, bert):
    found = loaded.signatures["serving_default"](**INPUTS)
    expected = bert(INPUTS)
    assert_close(found, {name: expected[name] for name in ("pooled_output", "sequence_output")})


@pytest.mark.parametrize("shape", [(1, 1), (0, 4), (5, 16), (3, 7)])
def test_any_batch_and_length(loaded, bert, shape):
    rng = np.random.default_rng(0)
    inputs = {
        "input_word_ids": tf.constant(rng.integers(0, 24, shape), tf.int32),
        "input_mask": tf.constant(rng.integers(0, 2, shape), tf.int32),  # holes, and rows of padding alone
        "input_type_ids": tf.constant(rng.integers(0, 2, shape), tf.int32),
    }
    assert_close(loaded(inputs), bert(inputs)) if shape[0] else loaded(inputs)
    assert loaded(inputs)["sequence_output"].shape == (*shape, 8)
    assert all(np.isfinite(x).all() for x in tf.nest.flatten(loaded(inputs)))


def test_shapes_are_known_before_the_call(loaded):
    shapes = {}

    @tf.function
    def graph(inputs):
        shapes.update(loaded(inputs))

    graph.get_concrete_function({name: tf.TensorSpec([None, 10], tf.int32) for name in INPUTS})
    assert shapes["pooled_output"].shape.as_list() == [None, 8]
    assert shapes["sequence_output"].shape.as_list() == [None, 10, 8]
    assert [x.shape.as_list() for x in shapes["encoder_outputs"]] == [[None, 10, 8]] * 2


def test_dropout_in_training_alone(loaded):
    def spread(training):
        runs = [loaded(INPUTS, training=training)["pooled_output"] for _ in range(8)]
        return np.mean(np.std(runs, axis=0))

    assert spread(training=False) <= 1e-6
    assert spread(training=True) > 1e-3


def test_variables(loaded, bert):
    assert len(loaded.trainable_variables) == len(bert.trainable_variables)
    for found, expected in zip(loaded.trainable_variables, bert.trainable_variables, strict=True):
        assert found.trainable
        np.testing.assert_array_equal(found, expected)
    assert len(loaded.variables) == len(bert.variables)
    assert loaded.regularization_losses == []


def test_frozen_weights_stay_frozen():
    bert = make(num_hidden_layers=1)
    bert.freeze(0)
    root = saved_model(bert, training=True)
    assert len(root.trainable_variables) == len(bert.trainable_variables) < len(root.variables)


def test_gradients(loaded, bert):
    """They reach every trainable variable, equal to the original's: the custom gradients are in the file."""

    def gradients(model):
        with tf.GradientTape() as tape:
            outputs = model(INPUTS, training=False)
            loss = tf.reduce_sum(tf.stack(outputs["encoder_outputs"]) ** 3) + tf.reduce_sum(outputs["default"] ** 2)
        return tape.gradient(loss, model.trainable_variables)

    for found, expected in zip(gradients(loaded), gradients(bert), strict=True):
        assert isinstance(found, tf.Tensor)  # dense, of the tables too
        scale = np.abs(expected).max()
        assert scale > 0
        assert np.abs(found - expected).max() <= 1e-5 * scale


def test_gradients_in_training(loaded):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(loaded(INPUTS, training=True)["default"] ** 2)
    assert all(np.abs(gradient).max() > 0 for gradient in tape.gradient(loss, loaded.trainable_variables))


def test_text_rules(loaded, bert, exported):
    assert loaded.do_lower_case.numpy()
    assert not loaded.do_lower_case.trainable
    path = loaded.vocab_file.asset_path.numpy().decode()
    assert path == str(exported / "encoder" / "1" / "assets" / "vocab.txt")
    assert tuple(tf.io.gfile.GFile(path).read().splitlines()) == bert.preprocessor.vocabulary.tokens


def test_ids_beyond_the_positions(loaded, bert):
    """Padding takes memory too, up to the square of its length, although no position is looked up for it."""
    longest = bert.config.max_position_embeddings
    wide = {name: tf.pad(x, [[0, 0], [0, longest + 1 - x.shape[1]]]) for name, x in INPUTS.items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"may have at most {longest} ids, padding included"):
        loaded.signatures["serving_default"](**wide)
    fits = {name: x[:, :longest] for name, x in wide.items()}
    assert_close(loaded.signatures["serving_default"](**fits)["pooled_output"], bert(INPUTS)["pooled_output"])


def test_wrong_ids(loaded):
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        loaded(INPUTS | {"input_word_ids": INPUTS["input_word_ids"] + 24})
