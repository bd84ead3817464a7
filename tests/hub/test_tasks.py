"""Tasks exported: the answers of the text SavedModel against the task's own, and the task read back."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.hub.export import _with_dtype
from keras_bert.hub.tasks import task_text
from tests.hub.conftest import SEQ_LENGTH, make

TEXTS = ["w1 w2 É", "w0", "W3, w4!"]
PAIRS = ["w5", "w6 w7 w8", "w9"]
LONG = "w1 " * 20


def _randomized(task):
    rng = np.random.default_rng(0)
    for weight in task.get_layer(task.heads[0]).weights if task.heads else ():
        weight.assign(rng.standard_normal(weight.shape))
    return task


def _exported(task, folder):
    keras_bert.export(task, folder)
    assert sorted(entry.name for entry in folder.iterdir()) == ["preprocess", "text"]
    return tf.saved_model.load(str(folder / "text" / "1")).signatures


def _traced(task, folder):
    """The signatures that `export` would save: one export of each task shows that they come through."""
    task.bert.preprocessor.vocabulary.save(folder / "vocab.txt")
    return task_text(task, SEQ_LENGTH, folder / "vocab.txt")[1]


def _example(**features):
    values = {name: tf.train.BytesList(value=[text.encode()]) for name, text in features.items()}
    feature = {name: tf.train.Feature(bytes_list=value) for name, value in values.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _strings(tensor):
    return np.char.decode(tensor.numpy().astype(bytes)).tolist()


def _assert_same_task(task, folder):
    again = type(task).load(folder)
    assert again.get_config()["bert"] == task.get_config()["bert"]
    for found, expected in zip([*again.weights, *again.bert.weights], [*task.weights, *task.bert.weights], strict=True):
        np.testing.assert_array_equal(found, expected)
    return again


@pytest.mark.parametrize("multi_label", [False, True])
def test_classifier(tmp_path, multi_label):
    bert = make(num_hidden_layers=1)
    task = _randomized(keras_bert.TextClassifier(bert, labels=("bad", "좋아요", "so so"), multi_label=multi_label))
    served = (_exported if multi_label else _traced)(task, tmp_path)
    for x, found in (
        ([*TEXTS, LONG], served["serving_default"](text=tf.constant([*TEXTS, LONG]))),
        ((TEXTS, PAIRS), served["pair"](text=tf.constant(TEXTS), text_pair=tf.constant(PAIRS))),
    ):
        expected = task.classify(x)
        assert _strings(found["label"]) == [answer.label for answer in expected]
        assert np.abs(found["score"] - [answer.score for answer in expected]).max() <= 1e-6
        assert np.abs(found["scores"] - [list(answer.scores.values()) for answer in expected]).max() <= 1e-6
        assert _strings(found["labels"]) == [list(task.labels)] * len(expected)
        assert found["truncated"].numpy().tolist() == [False, False, False, True][: len(expected)]
    examples = tf.constant([_example(text=text, text_pair=pair) for text, pair in zip(TEXTS, PAIRS, strict=True)])
    for name, x in (("classify", TEXTS), ("classify_pair", (TEXTS, PAIRS))):
        found, expected = served[name](inputs=examples), task.classify(x)
        assert np.abs(found["scores"] - [list(answer.scores.values()) for answer in expected]).max() <= 1e-6
        assert _strings(found["classes"]) == [list(task.labels)] * len(expected)
    packed = bert.preprocessor(TEXTS)
    assert np.abs(served["logits"](**packed)["logits"] - task(packed)).max() <= 1e-6
    if multi_label:
        again = _assert_same_task(task, tmp_path)
        assert (again.labels, again.multi_label) == (task.labels, True)
        again = keras_bert.load(tmp_path)
        np.testing.assert_array_equal(again.word_embeddings.embeddings, bert.word_embeddings.embeddings)


@pytest.mark.parametrize("pairs", ["together", "cosine"])
def test_regressor(tmp_path, pairs):
    task = _randomized(keras_bert.TextRegressor(make(num_hidden_layers=1), pairs=pairs))
    served = (_exported if pairs == "cosine" else _traced)(task, tmp_path)
    signature = served["pair" if pairs == "together" else "serving_default"]
    found = signature(text=tf.constant(TEXTS), text_pair=tf.constant(PAIRS))
    assert np.abs(found["score"] - task.score((TEXTS, PAIRS))).max() <= 1e-6
    if pairs == "together":
        found = served["serving_default"](text=tf.constant(TEXTS))
        assert np.abs(found["score"] - task.score(TEXTS)).max() <= 1e-6
    else:
        assert _assert_same_task(task, tmp_path).pairs == pairs


def test_multiple_choice(tmp_path):
    task = _randomized(keras_bert.MultipleChoice(make(num_hidden_layers=1), choices=3))
    served = _exported(task, tmp_path)
    choices = [PAIRS, TEXTS, PAIRS[::-1]]
    found = served["serving_default"](prompt=tf.constant(TEXTS), choices=tf.constant(choices))
    expected = task.choose(TEXTS, choices)
    assert found["index"].numpy().tolist() == [answer.index for answer in expected]
    assert _strings(found["choice"]) == [answer.text for answer in expected]
    assert np.abs(found["scores"] - [answer.scores for answer in expected]).max() <= 1e-6
    assert _assert_same_task(task, tmp_path).choices == 3


@pytest.mark.parametrize(
    ("labels", "unit"),
    [
        (("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), "word"),
        (("O", "I-PER", "S-PER", "E-PER"), "piece"),
        (("NOUN", "VERB", "X"), "word"),
    ],
)
def test_tagger(tmp_path, labels, unit):
    task = _randomized(keras_bert.TokenTagger(make(num_hidden_layers=1), labels=labels, unit=unit))
    served = (_exported if unit == "piece" else _traced)(task, tmp_path)
    texts = [*TEXTS, "", " w1 É w2  w3", " ".join(f"w{i % 18}" for i in range(40))]  # the last in four parts
    found = {name: x.numpy() for name, x in served["serving_default"](text=tf.constant(texts)).items()}
    for row, entities in enumerate(task.tag(texts)):
        assert found["count"][row] == len(entities)
        for name in ("type", "text", "start", "end", "score"):
            got = found[name][row][: len(entities)].tolist()
            expected = [getattr(entity, name) for entity in entities]
            if name == "score":
                assert np.abs(np.subtract(got, expected)).max(initial=0) <= 1e-5
            else:
                assert [one.decode() if isinstance(one, bytes) else one for one in got] == expected
    assert found["count"].sum() > 10
    assert found["truncated"].tolist() == [False] * len(texts)
    assert served["serving_default"](text=tf.constant([], tf.string))["type"].shape[0] == 0
    if unit == "piece":
        assert _assert_same_task(task, tmp_path).unit == unit


@pytest.mark.parametrize("null_threshold", [None, -1.0, 3.0])
def test_question_answerer(tmp_path, null_threshold):
    task = keras_bert.QuestionAnswerer(make(num_hidden_layers=1), null_threshold=null_threshold, stride=3)
    task = _randomized(task)
    served = (_exported if null_threshold == 3.0 else _traced)(task, tmp_path)
    questions = ["w1", "w2 w3?", "w4 w5 w6 w7 w8 w9 w1", "w1"]  # a question keeps six pieces, half of twelve
    contexts = ["w5  É w6.", " ".join(f"w{i * 7 % 18}" for i in range(50)), "w1", ""]
    found = served["serving_default"](question=tf.constant(questions), context=tf.constant(contexts))
    for row, expected in enumerate(task.answer(questions, contexts)):
        start, end = (int(found[name][row]) for name in ("start", "end"))
        assert (start, end) == ((-1, -1) if expected.start is None else (expected.start, expected.end))
        assert found["text"][row].numpy().decode() == expected.text
        assert abs(float(found["score"][row]) - expected.score) <= 1e-5
    assert found["truncated"].numpy().tolist() == [False, False, True, False]  # the long context is read whole
    if null_threshold == 3.0:
        assert _assert_same_task(task, tmp_path).null_threshold == null_threshold


def test_pretrainer(tmp_path):
    bert = make(num_hidden_layers=1)
    pretrainer = keras_bert.Pretrainer(bert)
    keras_bert.export(pretrainer, tmp_path)
    loaded = tf.saved_model.load(str(tmp_path / "encoder" / "1"))
    packed = bert.preprocessor(TEXTS)
    inputs = {**packed, "masked_lm_positions": tf.constant([[1, 2], [0, 1], [3, 0]])}
    expected = {**bert(packed), **pretrainer(inputs)}
    found = loaded.mlm(inputs)
    assert set(found) == set(expected)
    for name in ("mlm_logits", "nsp_logits", "pooled_output", "sequence_output"):
        assert np.abs(found[name] - expected[name]).max() <= 1e-6, name
    served = loaded.signatures["mlm"](**inputs)
    assert np.abs(served["mlm_logits"] - expected["mlm_logits"]).max() <= 1e-6
    noisy = [loaded.mlm(inputs, training=True)["pooled_output"] for _ in range(2)]
    assert np.abs(noisy[0] - noisy[1]).max() > 1e-3
    assert len(loaded.trainable_variables) == len(bert.trainable_variables)  # without the heads'
    assert len(loaded.mlm.trainable_variables) == len(pretrainer.trainable_variables)
    again = keras_bert.Pretrainer.load(tmp_path)
    for ours, theirs in zip(again.weights, pretrainer.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_bfloat16(tmp_path):
    task = _randomized(keras_bert.TextClassifier(make(num_hidden_layers=1), labels=("bad", "good")))
    copy = _with_dtype(task, "bfloat16")
    found = _traced(copy, tmp_path)["serving_default"](text=tf.constant(TEXTS))["scores"]
    assert found.dtype == tf.float32
    expected = np.array([list(answer.scores.values()) for answer in task.classify(TEXTS)])
    assert 0 < np.abs(found - expected).max() < 0.02
