"""Tasks on texts that are too long: the ends, or windows whose vectors are pooled, against a loop over the windows."""

import json
import logging

import keras
import numpy as np
import pytest

from keras_bert import TextClassifier, TextRegressor
from keras_bert.tasks.run.settings import FinetuneSettings
from tests.parity.oracles import array, randomize
from tests.tasks.runs import run, train, write
from tests.tasks.small import NO_DROPOUT, TEXTS, small_bert
from tests.text.test_text_windows import expected_windows

LENGTH = 8
WORDS = ["the", "film", "was", "good", "bad", "lives", "in", "rome", "who", "where"]
POOLS = ("mean", "max", "attention")
tensorflow_only = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of the TensorFlow backend")


def long_texts(count=9):
    rng = np.random.default_rng(0)
    return ["", "good", *(" ".join(rng.choice(WORDS, length)) for length in rng.integers(1, 70, count - 2))]


def classifier(pool="mean", long="windows", **options):
    bert = small_bert(seq_length=LENGTH, **NO_DROPOUT)
    return randomize(TextClassifier(bert, ("bad", "good", "so so"), long=long, pool=pool, **options), scale=0.3)


def chosen(windows, most):
    """At most so many windows, from the first to the last."""
    if most is None or len(windows) <= most:
        return windows
    if most == 1:
        return windows[:1]
    return [windows[number * (len(windows) - 1) // (most - 1)] for number in range(most)]


def expected_logits(task, texts, most=None):
    """Each window through the encoder by itself; the pool and the head in numpy."""
    found = []
    for text in texts:
        words = [task.bert.preprocessor.vocabulary[word] for word in text.split()]
        vectors = []
        for window in chosen(expected_windows(words, LENGTH), most):
            ids = np.array([[2, *window, 3]], "int32")
            inputs = {"input_word_ids": ids, "input_mask": ids * 0 + 1, "input_type_ids": ids * 0}
            vectors.append(array(task.bert(inputs)["pooled_output"])[0])
        vectors = np.array(vectors, "float64")
        if task.pool == "max":
            pooled = vectors.max(0)
        else:
            query = array(task.get_layer("window_pooling").query) if task.pool == "attention" else np.zeros((8, 1))
            powers = np.exp(vectors @ query)
            pooled = (powers / powers.sum() * vectors).sum(0)
        head = task.get_layer(task.heads[0])
        found.append(pooled @ array(head.kernel) + array(head.bias))
    return np.array(found)


@pytest.mark.parametrize("pool", POOLS)
def test_windows_are_pooled(pool, tmp_path):
    task, texts = classifier(pool), long_texts()
    expected = expected_logits(task, texts)
    assert np.abs(expected - expected[0]).max() > 0.1
    found = [task.predict(texts, batch_size=size) for size in (1, 3, 300)]
    np.testing.assert_allclose(found[0], expected, atol=2e-6)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)
    np.testing.assert_allclose(task.predict(texts[4:5])[0], found[0][4], atol=1e-6)
    assert task.classify(texts[4]).label == task.labels[expected[4].argmax()]
    task.save(tmp_path / "task.keras")
    again = keras.models.load_model(tmp_path / "task.keras")
    assert (again.long, again.pool, again.max_windows) == ("windows", pool, 8)
    assert np.array_equal(again.predict(texts), task.predict(texts))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("pool", POOLS)
def test_training_reads_windows_spread_evenly(pool, caplog):
    """The model of a batch of examples, which is what `fit` trains, and its gradient through all these windows."""
    texts = long_texts()
    task = classifier(pool, max_windows=3)
    examples = task.examples(texts, [0] * len(texts))
    x, *_ = next(iter(examples.batches(len(texts))))
    assert x["input_mask"].shape[1] == 3
    np.testing.assert_allclose(array(task(x)), expected_logits(task, texts, most=3), atol=1e-6)
    with caplog.at_level(logging.WARNING):
        task.fit(texts, [0, 1] * 4 + [0], epochs=1, verbose=0, recipe=None)
    many = sum(len(expected_windows(text.split(), LENGTH)) > 3 for text in texts)
    assert f"{many} of 9 training rows have more than 3 windows. Training reads 3 windows of each" in caplog.text
    assert caplog.text.count("have more than") == 1  # and not of the rows that are only scored


@tensorflow_only
@pytest.mark.parametrize("pool", POOLS)
def test_gradient(pool):
    """Of a weight of the encoder, against the difference quotient of the loop."""
    import tensorflow as tf

    task, texts = classifier(pool), long_texts(5)
    x, *_ = next(iter(task.examples(texts, [0] * 5).batches(5)))
    weight = task.bert.get_layer("layer_0_output").kernel
    direction = np.random.default_rng(1).normal(size=weight.shape).astype("float32")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(task(x, training=True)[:, 0])
    slope = float(tf.reduce_sum(tape.gradient(loss, weight.value) * direction))
    start, sums = array(weight), []
    for step in (1e-3, -1e-3):
        weight.assign(start + step * direction)
        sums.append(expected_logits(task, texts, most=8)[:, 0].sum())
    assert slope == pytest.approx((sums[0] - sums[1]) / 2e-3, rel=2e-2, abs=1e-3)
    assert abs(slope) > 1e-3


def test_windows_learn_what_is_in_the_middle():
    rng = np.random.default_rng(0)
    noise = [list(rng.choice(["the", "film", "was", "in", "rome"], 30)) for _ in range(64)]
    labels = ["good" if number % 2 else "bad" for number in range(64)]
    texts = [" ".join([*row[:15], label, label, *row[15:]]) for row, label in zip(noise, labels, strict=True)]
    keras.utils.set_random_seed(0)
    bert = small_bert(seq_length=LENGTH, **NO_DROPOUT, hidden_size=16, intermediate_size=32)
    task = TextClassifier(bert, ("bad", "good"), long="windows", pool="max")
    task.compile(keras.optimizers.Adam(0.01), task.default_loss())
    task.fit(texts, labels, epochs=8, batch_size=16, verbose=0)
    assert task.evaluate(texts, labels, return_dict=True, verbose=0)["accuracy"] > 0.9


def test_head_and_tail(caplog):
    task = classifier(long="head-tail")
    x = task.examples(["the film was good bad lives in rome who"]).inputs([0])
    ids = array(x["input_word_ids"])[0].tolist()
    words = [task.bert.preprocessor.vocabulary.token(int(number)) for number in ids]
    assert words == ["[CLS]", "the", "film", "lives", "in", "rome", "who", "[SEP]"]
    assert task.get_config()["long"] == "head-tail"
    task.classify(long_texts())
    assert "rows are cut to 8 pieces" in caplog.text
    assert "--long" not in caplog.text  # it is in use


def test_a_pooling_without_windows_is_said(caplog):
    classifier(long="truncate", pool="max")
    assert "pool='max' and max_windows=8 have no effect without long=\"windows\"." in caplog.text


def test_truncation_is_the_default_and_names_the_others(caplog):
    task = classifier(long="truncate")
    texts = long_texts()
    task.predict(texts)
    cut = sum(len(text.split()) > LENGTH - 2 for text in texts)
    assert f"{cut} of 9 rows are cut to 8 pieces; the preprocessor's seq_length is the limit. With long=" in caplog.text
    assert "--long" in caplog.text


@pytest.mark.usefixtures("eager")
def test_regressor():
    bert = small_bert(seq_length=LENGTH, **NO_DROPOUT)
    task, texts = randomize(TextRegressor(bert, long="windows", pool="attention"), scale=0.3), long_texts()
    np.testing.assert_allclose(task.score(texts), expected_logits(task, texts)[:, 0], atol=1e-6)
    task.fit(texts, np.linspace(0, 1, 9), epochs=1, verbose=0, validation_data=(texts, np.linspace(0, 1, 9)))
    found = [task.evaluate(texts, np.linspace(0, 1, 9), size, return_dict=True, verbose=0) for size in (1, 4, 32)]
    assert found[1] == pytest.approx(found[0], abs=1e-6)
    assert found[2] == pytest.approx(found[0], abs=1e-6)


def test_refused():
    bert = small_bert()
    with pytest.raises(ValueError, match="`long` must be one of truncate, head-tail, windows"):
        TextClassifier(bert, ("a", "b"), long="window")
    with pytest.raises(ValueError, match="`pool` must be one of mean, max, attention"):
        TextClassifier(bert, ("a", "b"), long="windows", pool="sum")
    with pytest.raises(ValueError, match="`max_windows` must be at least 1"):
        TextRegressor(bert, long="windows", max_windows=0)
    with pytest.raises(ValueError, match=r'Use long="head-tail"'):
        TextRegressor(bert, pairs="cosine", long="windows")
    with pytest.raises(ValueError, match="reads single texts"):
        classifier().classify((["good"], ["bad"]))
    for kind in ("tag", "answer", "choose"):
        with pytest.raises(ValueError, match=f"the task '{kind}' does not have it"):
            FinetuneSettings(kind, "", "", long="windows")
    with pytest.raises(ValueError, match="Add --long windows"):
        FinetuneSettings("classify", "", "", long="head-tail", pool="max")


@pytest.mark.long
@tensorflow_only
@pytest.mark.usefixtures("without_preprocess")
@pytest.mark.parametrize("long", ["head-tail", "windows"])
def test_export(long, tmp_path):
    import tensorflow as tf

    import keras_bert
    from keras_bert.exports.text_part import answers_to_texts
    from keras_bert.serving.served_version import ServedVersion

    task, texts = classifier("attention", long=long), long_texts()
    if long == "windows":
        keras_bert.export(task, tmp_path / "export")
        served = ServedVersion(tmp_path / "export" / "text" / "1").signatures
        again = TextClassifier.load(tmp_path / "export")
        assert (again.long, again.pool) == (long, "attention")
        assert np.array_equal(again.predict(texts), task.predict(texts))
    else:
        task.bert.preprocessor.vocabulary.save(tmp_path / "vocab.txt")
        served = answers_to_texts(task, LENGTH, tmp_path / "vocab.txt")[1]
    found = served["serving_default"](text=tf.constant(texts))
    expected = np.array([list(answer.scores.values()) for answer in task.classify(texts)])
    np.testing.assert_allclose(found["scores"], expected, atol=1e-6)
    cut = [long == "head-tail" and len(text.split()) > LENGTH - 2 for text in texts]
    assert found["truncated"].numpy().tolist() == cut
    assert ("pair" in served) == ("classify_pair" in served) == (long == "head-tail")
    many = "the film was good " * 500
    (scores,) = served["serving_default"](text=tf.constant([many]))["scores"].numpy().tolist()
    assert scores == pytest.approx(list(task.classify(many).scores.values()), abs=1e-5)
    assert served["serving_default"](text=tf.constant([], tf.string))["scores"].shape == (0, 3)


@tensorflow_only
@pytest.mark.parametrize("pool", POOLS)
def test_onnx(pool):
    pytest.importorskip("onnxruntime")
    import keras_bert
    from keras_bert.onnx_graph.convert import to_onnx
    from tests.onnx_graph.test_convert import run as run_onnx

    task, texts = classifier(pool), long_texts()
    x, *_ = next(iter(task.examples(texts, [0] * 9).batches(9)))
    inputs = {name: np.asarray(value) for name, value in x.items()}
    np.testing.assert_allclose(run_onnx(to_onnx(task), inputs)["output"], array(task(x)), atol=1e-5)
    fast = keras_bert.inference(task, "onnxruntime")
    np.testing.assert_allclose(fast.predict(texts), task.predict(texts), atol=1e-5)


def test_command_line(bert, tmp_path):
    rng = np.random.default_rng(0)
    rows = [["text", "label"]]
    for number in range(64):
        noise = " ".join(rng.choice(["the", "film", "is", "in"], 80))
        rows.append([f"{noise} {'good' if number % 2 else 'bad'}", ("no", "yes")[number % 2]])
    path = write(tmp_path / "a.tsv", rows)
    options = ["--long", "windows", "--pool", "max", "--max-windows", 2, "--epochs", 1]
    cached = keras.backend.backend() == "tensorflow"
    options += ["--cache-batch", 5] if cached else []
    said = train(bert, "classify", path, path, tmp_path / "windows", *options)
    assert "accuracy" in said
    settings = json.loads((tmp_path / "windows" / "settings.json").read_text())
    assert (settings["long"], settings["pool"], settings["max_windows"]) == ("windows", "max", 2)
    text = " ".join(TEXTS * 40)
    answer = json.loads(run("predict", tmp_path / "windows", input=f"{text}\n").stdout)
    assert answer["label"] in ("no", "yes")
    card = (tmp_path / "windows" / "README.md").read_text()
    assert "| long | `windows` |" in card
    assert ("| texts or windows computed at a time | 5 |" in card) == cached


@tensorflow_only
@pytest.mark.network
def test_serve(tmp_path):
    """With its usual limits, the development server answers a text of 100,000 words as the task does."""
    import urllib.request

    from keras_bert.exports.text_part import answers_to_texts
    from keras_bert.serving.server import application
    from tests.serving.browser import Traced
    from tests.serving.in_process import running

    task, text = classifier("max", abstain_below=0.99), "the film was good " * 25_000
    task.bert.preprocessor.vocabulary.save(tmp_path / "vocab.txt")
    root, signatures = answers_to_texts(task, LENGTH, tmp_path / "vocab.txt")
    served = Traced("text", signatures)
    served.root = root  # which holds the variables
    served.tokenize = task.bert.preprocessor.tokenize  # as that of preprocess/
    with running(application({"long": {1: served}})) as address:
        url = "http://{}:{}/".format(*address)
        body = json.dumps({"instances": [text]}).encode()
        with urllib.request.urlopen(f"{url}v1/models/long:predict", body, timeout=60) as answer:
            (found,) = json.load(answer)["predictions"]
    expected = task.classify(text)
    assert found["scores"] == pytest.approx(list(expected.scores.values()), abs=1e-6)
    assert found["truncated"] is False
    assert (found["label"], expected.label) == ("", None)
