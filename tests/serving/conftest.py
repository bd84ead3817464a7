"""A classifier exported as a kit for TF Serving, once for all tests of serving."""

import json

import keras
import pytest
from typer.testing import CliRunner

from keras_bert.weights import our_folder
from keras_bert_cli import app
from tests.serving.exported import LABELS, METRICS, NAME
from tests.weights import small

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are TensorFlow's", allow_module_level=True)


@pytest.fixture(scope="session")
def kit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving")
    our_folder.write_checkpoint(small.checkpoint("classifier", num_hidden_layers=1, labels=LABELS), folder / "model")
    (folder / "model" / "metrics.json").write_text(json.dumps(METRICS | {"epochs": [{"epoch": 1}]}))
    command = ["export", str(folder / "model"), "--name", NAME, "--output", str(folder), "--seq-length", "12"]
    command.append("--attention")
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0
    assert "TextClassifier\tversion 1" in result.output
    return folder / NAME


@pytest.fixture(scope="session")
def expected(kit):
    """What the kit's SavedModel answers when it is asked directly."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(kit / "text" / "1"))

    def answer(texts):
        found = loaded.signatures["serving_default"](text=tf.constant(texts))
        return {name: tensor.numpy() for name, tensor in found.items()}

    answer.loaded = loaded
    return answer
