"""Tasks on texts of 5,000,000 characters, exports and servers on 100,000 words: the answers, and their memory."""

import resource

import numpy as np
import pytest

import keras_bert
from tests.serving.as_process import ask, listening, started
from tests.subprocesses import fork
from tests.tasks.small import TEXTS, small_task
from tests.tasks.test_long_texts import LENGTH, classifier, tensorflow_only


def memory_of_long_texts():
    """The answers to 0, 450,000 and 5,000,000 characters, and how much more memory each of the last two took."""
    task, words, found, peaks = classifier(), "the film was good ", [], []
    task.classify(["good " * 40] * 3)
    for times in (0, 25_000, 278_000):
        found.append(task.classify(words * times, 512).scores)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return found, np.diff(peaks).tolist()


@pytest.mark.long
def test_very_long_texts_take_bounded_memory():
    """A text of 5,000,000 characters is 220,000 windows here; of each, only the vector is kept."""
    (nothing, some, many), (first, second) = fork(memory_of_long_texts)
    assert some == pytest.approx(many, abs=1e-3)
    assert some != nothing
    assert first < 150
    assert second < 600


@pytest.mark.long
@pytest.mark.parametrize("kind", ["classifier", "head-tail", "regressor", "cosine", "embedder", "choice"])
def test_a_text_of_5_000_000_characters_is_truncated(kind):
    """The answer is that to its beginning; with head-tail, this text ends as its beginning does."""
    task = classifier("mean", "head-tail") if kind == "head-tail" else small_task(kind)
    long, short = [["the film was good " * times] for times in (278_000, 20)]
    if kind in ("regressor", "cosine"):
        assert task.score((long, short)) == pytest.approx(task.score((short, short)))
    elif kind == "embedder":
        np.testing.assert_allclose(task.embed(long), task.embed(short), atol=1e-6)
    elif kind == "choice":
        assert task.choose(long, [TEXTS[:3]])[0].scores == pytest.approx(task.choose(short, [TEXTS[:3]])[0].scores)
    else:
        assert task.classify(long)[0].scores == pytest.approx(task.classify(short)[0].scores)


def memory_of_text_in_parts(kind):
    """How much more memory a text of 5,000,000 characters needs than one of 400, and the answers to both."""
    task, question = small_task(kind), ["where lives anna?"]
    found, peaks = [], []
    for times in (20, 278_000):
        text = ["the film was good " * times]
        found.append(task.answer(question, text, batch_size=256) if kind == "answerer" else task.tag(text, 256)[0])
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return found, peaks[1] - peaks[0]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tagger", "answerer"])
def test_a_text_of_5_000_000_characters_is_read_in_parts(kind):
    """All of it is read, and an answer is where it says that it is."""
    (short, long), megabytes = fork(memory_of_text_in_parts, kind)
    text = "the film was good " * 278_000
    assert all(text[one.start : one.end] == one.text for one in long)
    if kind == "tagger":  # the last window of the short text ends elsewhere
        assert long[: len(short) // 2] == short[: len(short) // 2]
        assert long[-1].end > 4_999_000
    assert megabytes < 2_000


def memory_of_an_export(vocabulary):
    """How much more memory an export needs for 100,000 words than for 400."""
    import tensorflow as tf

    from keras_bert.exports.text_part import answers_to_texts

    task, peaks = classifier(), []
    task.bert.preprocessor.vocabulary.save(vocabulary)
    _root, signatures = answers_to_texts(task, LENGTH, vocabulary)  # the root holds the variables
    for times in (100, 25_000):
        signatures["serving_default"](text=tf.constant(["the film was good " * times]))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return peaks[1] - peaks[0]


@pytest.mark.long
@tensorflow_only
def test_an_export_takes_bounded_memory(tmp_path):
    assert fork(memory_of_an_export, tmp_path / "vocab.txt") < 150


@pytest.mark.long
@pytest.mark.network
@tensorflow_only
def test_a_server_takes_bounded_memory(tmp_path):
    """The answer of `serve` to 100,000 words is that of the task, in memory as for 400 words."""
    task, found, peaks = classifier(), [], []
    keras_bert.export(task, tmp_path / "film")
    texts = ["the film was good " * times for times in (100, 25_000)]
    with started("serve", tmp_path / "film") as process:
        server = listening(process)
        for text in texts:
            status, answer = ask(server.url, "/v1/models/film:predict", {"inputs": [text]})
            assert status == 200, answer
            found.append(answer["outputs"]["scores"][0])
            with open(f"/proc/{process.pid}/status") as lines:
                peaks.append(next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")))
    np.testing.assert_allclose(found, [list(one.scores.values()) for one in task.classify(texts)], atol=1e-5)
    assert peaks[1] - peaks[0] < 300
