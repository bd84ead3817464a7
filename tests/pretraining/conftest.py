import pytest

from keras_bert.pretraining.examples.masking import Masking
from tests.pretraining.corpus import corpus
from tests.pretraining.small_examples import write


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def dynamic(source):
    directory = source.parent / "dynamic"
    write(source, directory)
    return directory


@pytest.fixture(scope="module")
def static(source):
    directory = source.parent / "static"
    write(source, directory, mode="static", dupe_factor=2, masking=Masking(max_predictions=6))
    return directory
