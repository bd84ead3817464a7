"""One small model, exported once for all tests of its SavedModels."""

import keras
import pytest

import keras_bert
from keras_bert.weights.load import build
from tests.weights import small

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are TensorFlow's", allow_module_level=True)

PARTS = ("preprocess", "encoder", "text")
SEQ_LENGTH = 12


def make(**changes):
    """A random Bert with dropout, 16 positions, and w0 ... w17 and é for words."""
    rules = small.TextRules(lowercase=True, strip_accents=False)
    return build(small.checkpoint(rules=rules, **{"num_hidden_layers": 2, **changes}), seq_length=SEQ_LENGTH)


@pytest.fixture(scope="session")
def bert():
    return make()


@pytest.fixture(scope="session")
def exported(bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved_models") / "small"
    keras_bert.export(bert, folder)
    return folder


@pytest.fixture(scope="session")
def little():
    return make(num_hidden_layers=1)
