"""The signatures of exports in numpy, against the same functions in TensorFlow."""

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.exports.text_part import signatures_of, text_model
from keras_bert.text.tensors import arrays
from tests.parity.oracles import randomize
from tests.tasks.small import KINDS, small_bert, small_task

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are TensorFlow's", allow_module_level=True)
import tensorflow as tf

TEXTS = [b"the film was good .", b"", b"Anna lives\xff in Rome, who? " * 9, "좋아요 서울에서 É film".encode()]
MASKED = [b"the [MASK] was [MASK] .", b"", b"[MASK]" * 40, b"no mask"]


def asked(inputs, count):
    """A column for each input of a signature."""
    texts = MASKED if list(inputs) == ["text"] else TEXTS
    columns = {}
    for number, (name, spec) in enumerate(inputs.items()):
        if spec.dtype != tf.string:
            columns[name] = np.array([0.5, -1, 3, 0][:count], "float32")
        elif len(spec.shape) == 2:
            columns[name] = np.array([TEXTS[:3]] * count, object)
        else:
            rows = [*texts[number:], *texts[:number]]
            columns[name] = np.array(rows[:count], object)
    return columns


def examples(inputs):
    """Serialized tf.train.Examples of such columns."""
    columns = asked(inputs, 4)
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return np.array([example(**row) for row in rows], object)


def example(**row):
    def feature(value):
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))

    features = {name: feature(value) for name, value in row.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def model_of(kind):
    if kind == "pretrainer":
        return randomize(keras_bert.Pretrainer(small_bert()))
    if kind == "bert":
        return small_bert()
    if kind == "columns":
        columns = {"numbers": ["price"], "categories": {"shop": ["a", "b"]}}
        return randomize(keras_bert.TextClassifier(small_bert(), labels=("a", "b"), other_columns=columns))
    if kind == "unsure":
        return randomize(keras_bert.TextClassifier(small_bert(), labels=("a", "긍정"), abstain_below=0.6))
    return randomize(small_task(kind))


@pytest.mark.parametrize("kind", [*KINDS, "pretrainer", "bert", "unsure"])
def test_answers(kind):
    model = model_of(kind)
    run = text_model(model)
    in_tensors = signatures_of(model, run, 16)
    with arrays():
        in_arrays = signatures_of(
            model,
            lambda rows: keras.tree.map_structure(np.asarray, run(rows)),
            16,
            lambda head: lambda inputs: np.asarray(head(inputs)),
        )
    assert list(in_arrays) == list(in_tensors)
    for name, signature in in_tensors.items():
        if name.startswith("classify"):
            columns = {"inputs": examples(in_tensors[{"classify": "serving_default"}.get(name, "pair")].inputs)}
        else:
            columns = asked(signature.inputs, 4)
        expected = signature.function(**{name: tf.constant(column) for name, column in columns.items()})
        with arrays():
            found = in_arrays[name].function(**columns)
        assert set(found) == set(expected)
        for key, values in expected.items():
            values = values.numpy()
            assert found[key].shape == values.shape, (name, key)
            assert (found[key].dtype == object) == (values.dtype == object), (name, key)
            if values.dtype.kind == "f":
                assert np.abs(found[key] - values).max(initial=0) <= 1e-5, (name, key)
            else:
                assert found[key].tolist() == values.tolist(), (name, key)
