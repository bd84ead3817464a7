"""A task that a user writes, outside of the package: its SavedModel takes text and returns answers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.exports.text_part import answers_to_texts
from keras_bert.serving.served_version import ServedVersion
from tests.exports.conftest import SEQ_LENGTH, make

TEXTS = ["w1 w2 É", "w0", "w1 " * 20]
PAIRS = ["w5", "w6 w7 w8", "w9"]


class Length(keras_bert.Task):
    """As little as a task can be: a head."""

    def __init__(self, bert, *, freeze=False, name=None):
        logits = keras.layers.Dense(2, name="length")(bert.output["pooled_output"])
        super().__init__(bert, bert.input, logits, freeze=freeze, name=name)


class NamedLength(Length):
    """With answers of its own."""

    def answers_in_graph(self, logits, texts):
        return {"long": tf.argmax(logits, axis=1), "characters": tf.strings.length(texts[0], unit="UTF8_CHAR")}


def traced(task, folder):
    task.bert.preprocessor.vocabulary.save(folder / "vocab.txt")
    return answers_to_texts(task, SEQ_LENGTH, folder / "vocab.txt")[1]


def test_logits_by_default(tmp_path):
    task = Length(make(num_hidden_layers=1))
    signatures = traced(task, tmp_path)
    assert set(signatures) == {"serving_default", "pair", "logits"}
    found = signatures["serving_default"](text=tf.constant(TEXTS))
    packed = task.bert.preprocessor(TEXTS)
    assert set(found) == {"logits", "truncated"}
    assert np.abs(found["logits"] - task(packed)).max() <= 1e-6
    assert found["truncated"].numpy().tolist() == [False, False, True]
    found = signatures["pair"](text=tf.constant(TEXTS), text_pair=tf.constant(PAIRS))
    assert np.abs(found["logits"] - task(task.bert.preprocessor((TEXTS, PAIRS)))).max() <= 1e-6
    assert np.abs(signatures["logits"](**packed)["logits"] - task(packed)).max() <= 1e-6


@pytest.mark.long
@pytest.mark.usefixtures("without_preprocess")
def test_answers_of_its_own(tmp_path):
    task = NamedLength(make(num_hidden_layers=1))
    keras_bert.export(task, tmp_path)
    loaded = tf.saved_model.load(str(tmp_path / "text" / "1"))
    found = loaded.signatures["serving_default"](text=tf.constant(TEXTS))
    assert set(found) == {"long", "characters", "truncated"}
    assert found["characters"].numpy().tolist() == [7, 2, 60]
    expected = np.argmax(task(task.bert.preprocessor(TEXTS)), axis=1)
    assert found["long"].numpy().tolist() == expected.tolist()
    described = ServedVersion(tmp_path / "text" / "1").metadata()["signature_def"]["signature_def"]
    types = {name: output["dtype"] for name, output in described["serving_default"]["outputs"].items()}
    assert types == {"long": "DT_INT64", "characters": "DT_INT32", "truncated": "DT_BOOL"}


def _loop(logits):
    return {"long": [1 if row[0] > 0 else 0 for row in logits]}


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda logits: {}, r"must return tensors by name.*Received: \{\}"),
        (lambda logits: logits, r"must return tensors by name.*Received: [A-Z]"),
        (lambda logits: {"long": logits, "truncated": logits}, r"returns an output 'truncated'.*Use another name"),
        (lambda logits: {"long": tf.reduce_mean(logits)}, r"output 'long' .*Received: shape \(\) for B texts"),
        (lambda logits: {"long": 0.5}, r"output 'long' .*Received: shape \(\) for B texts"),
        (lambda logits: {"long": tf.constant([1, 2])}, r"output 'long' .*Received: shape \(2,\) for B texts"),
        (lambda logits: {"long": tf.reshape(logits, [-1])}, r"output 'long' .*Received: shape \(6,\) for 3 texts"),
        (lambda logits: {"long": np.argmax(logits, axis=1)}, r"failed in the graph.*TensorFlow ops.*Received: NotImpl"),
        (lambda logits: {"long": logits.numpy()}, r"failed in the graph.*Received: AttributeError"),
        (lambda logits: {"long": "yes" if logits[0, 0] > 0 else "no"}, r"failed in the graph.*Received: Oper"),
        (_loop, r"failed in the graph"),
    ],
)
def test_answers_that_no_export_can_have(answers, message, tmp_path):
    class Odd(Length):
        def answers_in_graph(self, logits, texts):
            return answers(logits)

    with pytest.raises((TypeError, ValueError), match=rf"Odd.answers_in_graph .*{message}") as error:
        traced(Odd(make(num_hidden_layers=1)), tmp_path)
    assert "\n" not in str(error.value)
