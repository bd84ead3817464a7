import keras
import pytest

import keras_bert
from tests.tasks.runs import WORDS, reviews, train, write


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
    return write(folder / "train.tsv", [*head, *reviews(160, 0)]), write(folder / "valid.tsv", [*head, *reviews(32, 1)])


@pytest.fixture(scope="session")
def finished(bert, files, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "reviews"
    said = train(bert, "classify", *files, output, "--epochs", 2)
    return output, said
