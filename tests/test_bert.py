"""The outputs of Bert, and the inputs that it refuses; runs on every backend."""

import dataclasses
from collections import UserDict

import keras
import numpy as np
import pytest
import scipy.stats

from keras_bert.bert import Bert
from tests.parity.oracles import array, ragged_batch, randomize
from tests.small_bert import CONFIG, flat


@pytest.fixture
def bert():
    return randomize(Bert(CONFIG))


@pytest.fixture
def inputs():
    return ragged_batch(CONFIG)


# === Shapes ===


def test_symbolic_shapes(bert):
    assert bert.output["pooled_output"].shape == (None, 8)
    assert bert.output["sequence_output"].shape == (None, None, 8)
    assert [x.shape for x in bert.output["encoder_outputs"]] == [(None, None, 8)] * 2
    assert bert.output["default"].shape == (None, 8)
    outputs = bert({name: keras.Input((12,), dtype="int32") for name in bert.input})
    assert outputs["sequence_output"].shape == (None, 12, 8)


@pytest.mark.parametrize("lengths", [(1,), (3, 5), (16, 1, 2)])
def test_shapes(bert, lengths):
    outputs = bert(ragged_batch(CONFIG, lengths))
    assert outputs["sequence_output"].shape == (len(lengths), max(lengths), 8)
    assert outputs["pooled_output"].shape == (len(lengths), 8)


# === What the weights begin as ===


def test_initial_values():
    found = []
    for seed in (0, 0, 1):
        keras.utils.set_random_seed(seed)
        bert = Bert(dataclasses.replace(CONFIG, vocab_size=2500))
        found.append(
            [array(weight).ravel() for weight in bert.weights if weight.path.endswith(("kernel", "embeddings"))]
        )
    first, again, other = map(np.concatenate, found)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    normal = scipy.stats.truncnorm(-2, 2, scale=CONFIG.initializer_range)
    assert scipy.stats.kstest(first, normal.cdf).pvalue > 1e-3
    assert np.abs(first).max() <= 0.04 * (1 + 1e-6)
    assert len({x[:8].tobytes() for x in found[0]}) == len(found[0])  # no two weights begin alike


# === The mask ===


def test_masked_positions_are_zero(bert, inputs):
    outputs = bert(inputs)
    for states in [outputs["sequence_output"], *outputs["encoder_outputs"]]:
        assert (array(states)[inputs["input_mask"] == 0] == 0).all()
        assert (array(states)[inputs["input_mask"] == 1] != 0).all()


def test_ids_at_masked_positions_do_not_matter(bert, inputs):
    before = flat(bert(inputs))
    hidden = inputs["input_mask"] == 0
    inputs["input_word_ids"][hidden] = 49
    inputs["input_type_ids"][hidden] = 1
    for x, y in zip(before, flat(bert(inputs)), strict=True):
        assert np.abs(x - y).max() <= 1e-6


def test_a_row_of_nothing_but_padding(bert, inputs):
    before = flat(bert(inputs))
    inputs["input_mask"][1] = 0
    for x, y in zip(before, flat(bert(inputs)), strict=True):
        assert np.isfinite(y).all()
        assert np.abs(np.delete(x, 1, 0) - np.delete(y, 1, 0)).max() <= 1e-6


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("lengths", [(), (1,), (0, 0)])
def test_empty_batch_one_token_all_padding(bert, lengths, training):
    shape = (len(lengths), 4)
    mask = (np.arange(4) < np.array(lengths, "int32").reshape(-1, 1)).astype("int32")
    ids = np.ones(shape, "int32")
    outputs = bert({"input_word_ids": ids, "input_mask": mask, "input_type_ids": ids * 0}, training=training)
    assert outputs["sequence_output"].shape == (*shape, 8)
    assert all(np.isfinite(x).all() for x in flat(outputs))


def test_a_row_does_not_depend_on_its_batch(bert, inputs):
    together = array(bert(inputs)["pooled_output"])
    for i in range(len(together)):
        alone = bert({name: x[i : i + 1] for name, x in inputs.items()})["pooled_output"]
        assert np.abs(array(alone)[0] - together[i]).max() <= 1e-5


# === Bad input ===


def transformers_inputs(x):  # a BatchEncoding is a UserDict
    names = dict(zip(("input_ids", "token_type_ids", "attention_mask"), (0, 2, 1), strict=True))
    return UserDict({name: list(x.values())[number] for name, number in names.items()})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda x: "some text", r"bert\.embed\(texts\)"),
        (lambda x: ["a", "b"], r"bert\.embed\(texts\)"),
        (lambda x: np.array(["a"]), r"bert\.embed\(texts\)"),
        (lambda x: x["input_word_ids"], "must be a dict"),
        (lambda x: {**x, "input_mask": x["input_mask"][:, :3]}, "`input_mask` must have the shape"),
        (lambda x: {**x, "input_word_ids": x["input_word_ids"].astype("float32")}, "must hold integers"),
        (lambda x: {**x, "input_word_ids": np.full(x["input_mask"].shape, "a")}, "must hold integers"),
        (lambda x: {name: x[name] for name in ("input_word_ids", "input_mask")}, "must be exactly"),
        (
            transformers_inputs,
            "Rename input_ids to input_word_ids, token_type_ids to input_type_ids, attention_mask to",
        ),
        (lambda x: {**x, "input_words": x["input_word_ids"]}, "must be exactly"),
        (lambda x: {**x, "input_word_ids": x["input_word_ids"] + 50}, "`input_word_ids` has a number outside 0 to 49"),
        (lambda x: {**x, "input_word_ids": x["input_word_ids"] - 50}, "`input_word_ids` has a number outside 0 to 49"),
        (lambda x: {**x, "input_type_ids": x["input_type_ids"] + 2}, "`input_type_ids` has a number outside"),
        (lambda x: {name: np.zeros((1, 17), "int32") for name in x}, "not exceed the model's 16 positions"),
        (lambda x: {name: np.zeros((2, 0), "int32") for name in x}, "has empty sequences"),
        (lambda x: {name: value[0] for name, value in x.items()}, r"shape \[batch, sequence\]"),
        (lambda x: {name: [[1, 2], [1]] for name in x}, "rows of several lengths"),
    ],
)
def test_bad_inputs(bert, inputs, change, says):
    with pytest.raises((ValueError, TypeError), match=says):
        bert(change(inputs))


def test_inputs_as_keywords(bert, inputs):
    with pytest.raises(TypeError, match=r"without \*\*\. Rename input_ids to input_word_ids"):
        bert(**transformers_inputs(inputs))


@pytest.mark.parametrize("nothing", [None, {}, "a text"])
def test_predict_nothing(bert, nothing):
    with pytest.raises((ValueError, TypeError), match="input_word_ids, input_mask, input_type_ids"):
        bert.predict(nothing, verbose=0)


def test_too_long_for_a_model_built_on_bert(bert):
    model = keras.Model(bert.input, bert.output["pooled_output"])
    with pytest.raises(ValueError, match="not exceed the model's 16 positions"):
        model({name: np.zeros((1, 17), "int32") for name in bert.input})


def test_no_vocabulary(bert):
    with pytest.raises(ValueError, match="has no vocabulary"):
        _ = bert.preprocessor
