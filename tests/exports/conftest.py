"""One small model, exported once for all tests of its SavedModels."""

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.exports.encoder_part import encoder
from keras_bert.exports.export import _save
from keras_bert.exports.manifest import write_manifest
from keras_bert.exports.text_part import answers_to_texts
from keras_bert.serving.served_version import ServedVersion
from keras_bert.tasks.task import Task
from keras_bert.weights.load import build
from keras_bert.weights.our_export import write_settings
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


def randomized(task):
    """The task with random weights in its head."""
    rng = np.random.default_rng(0)
    for weight in task.get_layer(task.heads[0]).weights if task.heads else ():
        weight.assign(rng.standard_normal(weight.shape))
    return task


@pytest.fixture(scope="session")
def exports(bert, exported, tmp_path_factory):
    """A model of every kind, the folder of its export, and the text SavedModel in it.

    One task is exported completely, the others only as `text`, because `preprocess` is the same for all.
    """
    found = {"bert": (bert, exported, ServedVersion(exported / "text" / "1"))}
    bert = make(num_hidden_layers=1)
    tasks = {
        "classifier": keras_bert.TextClassifier(bert, labels=("bad", "좋아요", "so so"), multi_label=True),
        "regressor": keras_bert.TextRegressor(bert, pairs="cosine"),
        "choice": keras_bert.MultipleChoice(bert, choices=3),
        "tagger": keras_bert.TokenTagger(bert, labels=("O", "I-PER", "S-PER", "E-PER"), unit="piece"),
        "answerer": keras_bert.QuestionAnswerer(bert, null_threshold=-1.0, stride=3),
    }
    for name, task in tasks.items():
        folder = tmp_path_factory.mktemp(name)
        randomized(task)
        if name == "classifier":
            keras_bert.export(task, folder)
            assert sorted(entry.name for entry in folder.iterdir()) == ["preprocess", "text"]
        else:
            export_part(task, folder / "text" / "1")
        found[name] = (task, folder, ServedVersion(folder / "text" / "1"))
    return found


def export_part(model, folder):
    """What `export` does for one part: the text of a task, or the encoder of a `Pretrainer`."""
    vocab_file = folder.parents[1] / "vocab.txt"
    model.bert.preprocessor.vocabulary.save(vocab_file)
    if isinstance(model, Task):
        _save(lambda: answers_to_texts(model, SEQ_LENGTH, vocab_file), folder, gradients=False)
    else:
        _save(lambda: encoder(model, vocab_file), folder, gradients=True)
    write_settings(model, folder / "assets.extra")
    write_manifest(folder, {"seq_length": SEQ_LENGTH})
