"""Each task trains on text and answers on every backend; run with KERAS_BACKEND=jax and torch too."""

import keras
import numpy as np
import pytest

from keras_bert.tasks.metrics.scores import scores
from tests.tasks.small import answers, columns, small_task

pytestmark = pytest.mark.usefixtures("eager")

SCORES = {
    "classifier": "matthews",
    "windows": "matthews",
    "cosine": "spearman",
    "tagger": "entity_f1",
    "answerer": "exact_match",
    "choice": "accuracy",
    "embedder": "spearman",
}


@pytest.mark.parametrize(("kind", "score"), SCORES.items())
def test_text_in_answers_out(kind, score, tmp_path):
    task = small_task(kind)
    x, y = columns(kind)
    history = task.fit(x, y, epochs=1, verbose=0, validation_data=(x, y)).history
    assert np.isfinite([*history["loss"], *history["val_loss"]]).all()
    assert history[f"val_{score}"] == [scores(task, x, y)[score]]
    logits = task.predict(x)
    assert len(answers(kind, task)) == len(y)
    assert np.abs(logits - task.predict(x, batch_size=1)).max() <= 1e-5
    task.save(tmp_path / "task.keras")
    assert np.array_equal(keras.models.load_model(tmp_path / "task.keras").predict(x), logits)


def test_resumed_within_an_epoch():
    """With the weights and the losses of a training of two epochs that was not interrupted."""
    ends = []
    for stopped in (False, True):
        keras.utils.set_random_seed(0)
        task = small_task("classifier")
        task.compile(keras.optimizers.SGD(0.1), task.default_loss())
        x, y = columns("classifier")
        options = {"batch_size": 1, "verbose": 0}  # 4 steps in an epoch
        if stopped:
            task.fit(x, y, max_steps=1, **options)
        history = task.fit(x, y, epochs=2, initial_step=int(stopped), **options).history
        ends.append([*task.get_weights(), np.array(history["loss"][1:])])
    assert len(ends[1][-1]) == 1
    assert all(np.array_equal(*pair) for pair in zip(*ends, strict=True))
