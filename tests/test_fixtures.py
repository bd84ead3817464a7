"""Files that an earlier version of the package saved still load, with the same outputs."""

from pathlib import Path

import keras
import numpy as np
import pytest

import keras_bert  # registers the classes
from tests.parity.oracles import array
from tests.tasks.small import columns, small_bert

FOLDER = Path(__file__).parent / "fixtures"
OUTPUTS = np.load(FOLDER / "outputs.npz")


@pytest.mark.parametrize("kind", ["classifier", "cosine", "pieces", "answerer", "choice"])
def test_tasks(kind):
    task = keras.models.load_model(FOLDER / f"{kind}.keras")
    assert np.abs(task.predict(columns(kind)[0], verbose=0) - OUTPUTS[kind]).max() <= 1e-6
    assert task.compiled == (kind == "classifier")


def test_bert():
    bert = keras.models.load_model(FOLDER / "bert.keras")
    found = bert(bert.preprocessor(["the film was good", "bad"]))["pooled_output"]
    assert np.abs(array(found) - OUTPUTS["bert"]).max() <= 1e-6
    assert isinstance(bert, keras_bert.Bert)
    given, wanted = (one.preprocessor.get_config() | {"name": None} for one in (bert, small_bert()))
    assert given == wanted


def test_pretrainer():
    pretrainer = keras.models.load_model(FOLDER / "pretrainer.keras")
    found = pretrainer.fill_mask("the film was [MASK]", top_k=3)
    assert np.abs([one.score for row in found for one in row] - OUTPUTS["pretrainer"]).max() <= 1e-6
