import keras
import pytest

import keras_bert
from tests.tasks import runs
from tests.tasks.runs import WORDS, reviews, train


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    keras.utils.set_random_seed(1)
    vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    config = keras_bert.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,  # tracing is what takes the time
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.3,  # so that a few steps teach something
    )
    path = tmp_path_factory.mktemp("bert") / "bert.keras"
    keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary)).save(path)
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    head = [["text", "label"]]
    train, valid = [*head, *reviews(160, 0)], [*head, *reviews(32, 1)]
    return runs.write(folder / "train.tsv", train), runs.write(folder / "valid.tsv", valid)


@pytest.fixture(scope="session")
def finished(bert, files, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "reviews"
    said = train(bert, "classify", *files, output, "--epochs", 2)
    return output, said


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
