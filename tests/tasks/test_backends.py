"""Each task trains on text and answers on every backend; run with KERAS_BACKEND=jax and torch too."""

import keras
import numpy as np
import pytest

from tests.tasks.small import answers, columns, small_task

pytestmark = pytest.mark.usefixtures("eager")


@pytest.mark.parametrize("kind", ["classifier", "cosine", "tagger", "answerer", "choice"])
def test_text_in_answers_out(kind, tmp_path):
    task = small_task(kind)
    x, y = columns(kind)
    history = task.fit(x, y, epochs=1, verbose=0, validation_data=(x, y)).history
    assert np.isfinite([*history["loss"], *history["val_loss"]]).all()
    logits = task.predict(x)
    assert len(answers(kind, task)) == len(y)
    assert np.abs(logits - task.predict(x, batch_size=1)).max() <= 1e-5
    task.save(tmp_path / "task.keras")
    assert np.array_equal(keras.models.load_model(tmp_path / "task.keras").predict(x), logits)
