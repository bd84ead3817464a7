"""Tasks exported: the text SavedModel's answers against the task's own, and the task read back."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.exports.text_part import answers_to_texts
from keras_bert.model import with_dtype
from keras_bert.serving.onnx_signatures import OnnxExport
from keras_bert.serving.served_version import OnnxVersion
from tests.exports.conftest import SEQ_LENGTH, export_part, make, randomized
from tests.serving.by_onnx import same_process  # noqa: F401 - a fixture

TEXTS = ["w1 w2 É", "w0", "W3, w4!"]
PAIRS = ["w5", "w6 w7 w8", "w9"]
LONG = "w1 " * 20


def _traced(task, folder):
    """The signatures that `export` would save: one export of each task shows that they come through."""
    task.bert.preprocessor.vocabulary.save(folder / "vocab.txt")
    return answers_to_texts(task, SEQ_LENGTH, folder / "vocab.txt")[1]


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
def test_classifier(exports, tmp_path, multi_label):
    task, folder, loaded = exports["classifier"]
    served = loaded.signatures
    if not multi_label:
        task = randomized(keras_bert.TextClassifier(task.bert, labels=task.labels))
        served = _traced(task, tmp_path)
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
    if multi_label:  # called without a signature, as TF-Hub's modules are, a task returns the same
        assert set(loaded.loaded(tf.constant(TEXTS))) == set(served["serving_default"].structured_outputs)
    packed = task.bert.preprocessor(TEXTS)
    assert np.abs(served["logits"](**packed)["logits"] - task(packed)).max() <= 1e-6
    if multi_label:
        again = _assert_same_task(task, folder)
        assert (again.labels, again.multi_label) == (task.labels, True)
        again = keras_bert.load(folder)
        np.testing.assert_array_equal(again.word_embeddings.embeddings, task.bert.word_embeddings.embeddings)


@pytest.mark.parametrize("pairs", ["together", "cosine"])
def test_regressor(exports, tmp_path, pairs):
    task, folder, loaded = exports["regressor"]
    signature = loaded.signatures["serving_default"]
    if pairs == "together":
        task = randomized(keras_bert.TextRegressor(task.bert))
        served = _traced(task, tmp_path)
        signature = served["pair"]
        found = served["serving_default"](text=tf.constant(TEXTS))
        assert np.abs(found["score"] - task.score(TEXTS)).max() <= 1e-6
    else:
        assert _assert_same_task(task, folder).pairs == pairs
    found = signature(text=tf.constant(TEXTS), text_pair=tf.constant(PAIRS))
    assert np.abs(found["score"] - task.score((TEXTS, PAIRS))).max() <= 1e-6


def test_multiple_choice(exports):
    task, folder, loaded = exports["choice"]
    choices = [PAIRS, TEXTS, PAIRS[::-1]]
    found = loaded.signatures["serving_default"](prompt=tf.constant(TEXTS), choices=tf.constant(choices))
    expected = task.choose(TEXTS, choices)
    assert found["index"].numpy().tolist() == [answer.index for answer in expected]
    assert _strings(found["choice"]) == [answer.text for answer in expected]
    assert np.abs(found["scores"] - [answer.scores for answer in expected]).max() <= 1e-6
    assert _assert_same_task(task, folder).choices == 3


@pytest.mark.parametrize(
    ("labels", "unit"),
    [
        (("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), "word"),
        (("NOUN", "VERB", "X"), "word"),
        (None, "piece"),  # as exported
    ],
)
def test_tagger(exports, tmp_path, labels, unit):
    task, folder, loaded = exports["tagger"]
    served = loaded.signatures
    if labels:
        task = randomized(keras_bert.TokenTagger(task.bert, labels=labels, unit=unit))
        served = _traced(task, tmp_path)
    texts = [*TEXTS, "", " w1 É w2  w3", " ".join(f"w{i % 18}" for i in range(40))]  # the last in four parts
    texts += ["w1\u0301 w2\ufe0f, w3\u0308\u200b É\u0301"]  # marks that leave no piece
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
    if not labels:
        assert _assert_same_task(task, folder).unit == unit


@pytest.mark.parametrize("null_threshold", [None, -1.0])
def test_question_answerer(exports, tmp_path, null_threshold):
    task, folder, loaded = exports["answerer"]
    served = loaded.signatures
    if null_threshold != task.null_threshold:
        task = randomized(keras_bert.QuestionAnswerer(task.bert, null_threshold=null_threshold, stride=3))
        served = _traced(task, tmp_path)
    questions = ["w1", "w2 w3?", "w4 w5 w6 w7 w8 w9 w1", "w1"]  # a question keeps six pieces, half of twelve
    words = np.random.default_rng(0).integers(0, 18, 150)  # without a period, so that no two windows are the same
    contexts = ["w5\u0301  É\u0301 w6\u0301.", " ".join(f"w{word}" for word in words), "w1\ufe0f", ""]
    found = served["serving_default"](question=tf.constant(questions), context=tf.constant(contexts))
    for row, expected in enumerate(task.answer(questions, contexts)):
        start, end = (int(found[name][row]) for name in ("start", "end"))
        assert (start, end) == ((-1, -1) if expected.start is None else (expected.start, expected.end))
        assert found["text"][row].numpy().decode() == expected.text
        assert abs(float(found["score"][row]) - expected.score) <= 1e-5
    assert found["truncated"].numpy().tolist() == [False, False, True, False]  # the long context is read whole
    listed = served["answers"](question=tf.constant(questions), context=tf.constant(contexts))
    assert listed["score"].shape == (len(questions), 5)
    for row, expected in enumerate(task.answer(questions, contexts, top_k=5)):
        best = [expected, *expected.others]
        assert listed["count"][row] == len(best)
        assert [text.decode() for text in listed["text"][row, : len(best)].numpy()] == [one.text for one in best]
        assert np.abs(listed["score"][row, : len(best)] - [one.score for one in best]).max() <= 1e-5
    if null_threshold is not None:
        assert 1 < found["start"].numpy().tolist().count(-1) < 4  # not of the empty context alone
        assert _assert_same_task(task, folder).null_threshold == null_threshold


def test_pretrainer(tmp_path):
    bert = make(num_hidden_layers=1)
    pretrainer = keras_bert.Pretrainer(bert)
    export_part(pretrainer, tmp_path / "encoder" / "1")
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


def test_bfloat16(exports, tmp_path):
    task = exports["classifier"][0]
    copy = with_dtype(task, "bfloat16")
    found = _traced(copy, tmp_path)["serving_default"](text=tf.constant(TEXTS))["scores"]
    assert found.dtype == tf.float32
    expected = np.array([list(answer.scores.values()) for answer in task.classify(TEXTS)])
    assert 0 < np.abs(found - expected).max() < 0.02


@pytest.mark.parametrize("name", ["bert", "classifier", "regressor", "choice", "tagger", "answerer"])
@pytest.mark.usefixtures("same_process")
def test_onnx_runtime_computes_the_same_answers(exports, name):
    _, folder, served = exports[name]
    computed = OnnxVersion(folder / "text" / "1", OnnxExport(folder / "text" / "1", int8=False))
    assert set(computed.signatures) == set(served.signatures) - {"logits"}
    for signature, function in computed.signatures.items():
        expected = served.signatures[signature]
        columns = function.structured_input_signature[1]
        if "inputs" in columns:
            values = {"inputs": [_example(text=text, text_pair=text) for text in (LONG, *TEXTS)]}
        elif "choices" in columns:
            values = {"prompt": TEXTS[:2], "choices": [["w1", "w2 w3", LONG], ["w4", "w5", ""]]}
        else:
            values = {column: [*TEXTS, LONG][:: 1 - 2 * number] for number, column in enumerate(columns)}
        inputs = {column: tf.constant(value) for column, value in values.items()}
        found = function(**{column: tensor.numpy() for column, tensor in inputs.items()})
        for key, tensor in expected(**inputs).items():
            if tensor.dtype == tf.float32:
                assert np.abs(found[key] - tensor).max() <= 1e-5, (signature, key)
            else:
                assert found[key].tolist() == tensor.numpy().tolist(), (signature, key)
