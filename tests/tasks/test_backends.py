"""Each task trains on text and answers on every backend; run with KERAS_BACKEND=jax and torch too."""

import keras
import numpy as np
import pytest

from keras_bert.tasks.metrics.scores import scores
from tests.tasks.small import answers, columns, small_task

pytestmark = pytest.mark.usefixtures("eager")

SCORES = {
    "classifier": "matthews",
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
