"""A task of the user's own: where it is saved, loaded and trained, and what its errors say."""

import keras
import pytest

import keras_bert
from keras_bert.tasks.run.finished_task import FinishedTask
from tests.tasks.small import TEXTS, small_bert


@keras.saving.register_keras_serializable("tests")
class Mood(keras_bert.Task):
    """A number for a text."""

    def __init__(self, bert, *, width=1, freeze=False, name=None):
        logits = keras.layers.Dense(width, name="mood")(bert.output["pooled_output"])
        super().__init__(bert, bert.input, logits, freeze=freeze, name=name)
        self.width = width

    def get_config(self):
        return {**super().get_config(), "width": self.width}


class Scorer(Mood):
    """The same with a loss."""

    def default_loss(self):
        return keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")


def test_a_bert_is_no_task(tmp_path):
    small_bert().save(tmp_path / "bert.keras")
    with pytest.raises(ValueError, match=r"bert.keras holds no task, but a Bert. Name the folder"):
        FinishedTask.load(tmp_path / "bert.keras")


def test_a_class_that_is_not_registered(tmp_path, monkeypatch):
    """The error names the class and leaves out the config, which has the vocabulary."""
    Mood(small_bert()).save(tmp_path / "mood.keras")
    monkeypatch.delitem(keras.saving.get_custom_objects(), "tests>Mood")
    monkeypatch.delattr("tests.tasks.test_own_task.Mood")
    with pytest.raises(ValueError, match=r"mood.keras holds Mood, a class that is not registered here") as error:
        FinishedTask.load(tmp_path / "mood.keras")
    assert len(str(error.value)) < 400
