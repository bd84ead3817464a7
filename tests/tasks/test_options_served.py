"""Tasks with options, saved, loaded, exported and served: the answers are those that the task gives in Python."""

import keras
import numpy as np
import pytest

from keras_bert import FinetuneRecipe, SentenceEmbedder, TextClassifier, TextRegressor
from tests.parity.oracles import randomize
from tests.tasks.small import NO_DROPOUT, small_bert, small_task
from tests.tasks.test_other_columns_saved import served

LENGTH = 8
TEXTS = ["", "good", "the film was bad", "the film " * 9 + "was bad", "was bad in " * 5 + "rome", "lives in rome"]
CUT = [False, False, False, True, True, False]


def embedder():
    return randomize(SentenceEmbedder(small_bert(LENGTH), "max", normalize=False), scale=0.3)


def classifier():
    bert = small_bert(LENGTH, **NO_DROPOUT)
    return randomize(TextClassifier(bert, ("bad", "good"), long="head-tail", temperature=0.3), scale=0.3)


def regressor_of_ends():
    return randomize(TextRegressor(small_bert(LENGTH, **NO_DROPOUT), long="head-tail"), scale=0.3)


def regressor_of_windows():
    return randomize(TextRegressor(small_bert(LENGTH, **NO_DROPOUT), long="windows", pool="max"), scale=0.3)


def student():
    """A smaller task that learned from a larger one, with thresholds."""
    teacher = randomize(small_task("several", small_bert(LENGTH, num_hidden_layers=2)), scale=0.3)
    task = teacher.with_layers(1)
    task.compile(keras.optimizers.SGD(0.1), task.default_loss(), run_eagerly=True)
    task.fit(TEXTS, [["good"], ["film"]] * 3, teacher=teacher, verbose=0)
    scores = [list(answer.scores.values()) for answer in task.classify(TEXTS)]
    task.thresholds = tuple(np.median(scores, axis=0).tolist())
    return task


def by_options():
    """A classifier of windows that learned with all options of the recipe, and may give no label."""
    bert = small_bert(LENGTH, **NO_DROPOUT)
    task = randomize(TextClassifier(bert, ("bad", "good"), long="windows", pool="attention"), scale=0.3)
    options = {"layer_decay": 0.9, "ema": 0.5, "label_smoothing": 0.1, "accumulate": 2, "class_weight": "balanced"}
    task.fit(TEXTS, ["good", "bad"] * 3, recipe=FinetuneRecipe(1e-3, epochs=2, batch_size=2, **options), verbose=0)
    task.abstain_below = float(np.median([answer.score for answer in task.classify(TEXTS)]))
    return task


@pytest.mark.network
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="SavedModels are TensorFlow's")
@pytest.mark.parametrize("make", [embedder, classifier, regressor_of_ends, regressor_of_windows, student, by_options])
def test_served(make, tmp_path):
    from keras_bert.exports.export import _save
    from keras_bert.serving.served_version import ServedVersion
    from tests.serving.in_process import serving

    task, export = make(), tmp_path / "text" / "1"
    task.save(tmp_path / "task.keras")
    loaded = keras.models.load_model(tmp_path / "task.keras")
    _save(lambda: served(loaded), export, gradients=False)
    with serving({"film": {1: ServedVersion(export)}}, "film") as post:
        status, answer = post({"inputs": TEXTS})
    assert status == 200
    found = answer["outputs"]
    assert found["truncated"] == ([False] * 6 if make in (by_options, regressor_of_windows) else CUT)
    if make is embedder:
        np.testing.assert_allclose(found["embedding"], task.embed(TEXTS), atol=1e-5)
        return
    if make in (regressor_of_ends, regressor_of_windows):
        np.testing.assert_allclose(found["score"], task.score(TEXTS), atol=1e-5)
        return
    answers = task.classify(TEXTS)
    np.testing.assert_allclose(found["scores"], [list(one.scores.values()) for one in answers], atol=1e-5)
    assert found["label"] == [one.label or "" for one in answers]
    assert (None in {one.label for one in answers}) == (make is by_options)
    if make is student:
        above = [tuple(np.array(task.labels)[row]) for row in found["above"]]
        assert above == [one.above() for one in answers]
        assert above != [one.above(0.5) for one in answers]
