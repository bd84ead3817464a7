"""Where a file cannot grow, as on a full disk, each writer fails with one line that names what the user asked for."""

import errno
import os
import re
import resource
from contextlib import contextmanager

import pytest

import keras_bert
from keras_bert.exports.new_version import new_version
from keras_bert.storage import new_folder
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.run.best_epoch import BestEpoch
from keras_bert.tasks.run.model_card import write_card, write_curve
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.training.metrics_log import MetricsFiles
from keras_bert.weights.convert import convert
from tests.subprocesses import fork
from tests.tasks.small import small_bert
from tests.weights import small


@contextmanager
def full():
    """No file of this process can have more than 1 kB: the system refuses to write, in whatever library."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def state_of_an_epoch(path):
    task = keras_bert.TextClassifier(small_bert(), labels=("bad", "good"))
    task.compile("adam", "sparse_categorical_crossentropy")
    best = BestEpoch(path.parent, Rows(["a"], [0], "valid.tsv", []))
    best.set_model(task)
    best.record |= {"epochs": [{}]}
    best.save_state()


def records(path):
    files = MetricsFiles(str(path.parent), start=0)
    path.write_text("a" * 999)
    files.write({"step": 1, "loss": 1.0})


def version(path):
    with new_version(path, 1, overwrite=False) as made:
        (made / "vocab.txt").write_text("a\n" * 1000)


METRICS = {
    "epochs": [{"epoch": 1, "loss": 0.5, "val_loss": 0.5, "scores": {"accuracy": 0.5}}],
    "chosen_by": "accuracy",
    "best_epoch": 1,
    "valid": {"accuracy": 0.5},
    "rows": {"train": 2, "valid": 2},
}
SETTINGS = FinetuneSettings("classify", "train.tsv", "valid.tsv")
WRITERS = {
    "our folder": ("write", "out", lambda path: convert(small.checkpoint(), "keras-bert", path)),
    "google": ("write", "out", lambda path: convert(small.checkpoint(), "google", path)),
    "hf": ("write", "out", lambda path: convert(small.checkpoint(), "hf", path)),
    "keras-hub": ("write", "out", lambda path: convert(small.checkpoint(), "keras-hub", path)),
    "model": ("save", "bert.keras", lambda path: small_bert().save(path)),
    "state": ("write", "epoch-1.npz", state_of_an_epoch),
    "records": ("add to", "metrics.jsonl", records),
    "export": ("write", "out", version),
    "card": ("write", "README.md", lambda path: write_card(path, SETTINGS, METRICS)),
}


def attempt(writer, folder):
    """In a process of its own, because no other thread could write either."""
    _, name, write = WRITERS[writer]
    try:
        with full():
            write(folder / name)
    except OSError as error:
        return error.errno, str(error)
    return None, "It was written."


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk(tmp_path, writer):
    verb, name, _ = WRITERS[writer]
    number, said = fork(attempt, writer, tmp_path)
    message = rf"^(\[Errno 27\] )?Could not {verb} {tmp_path}/{name}: File too large\. .*Free some space.*path\.$"
    assert re.search(message, said)
    assert number in (None, errno.EFBIG)
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".partial")]


def attempt_picture(folder):
    with full():
        write_curve(folder / "curve.png", METRICS)
    return os.listdir(folder)


def test_a_picture_on_a_full_disk(tmp_path):
    """It is no error, and leaves nothing."""
    assert fork(attempt_picture, tmp_path) == []


def attempt_again(folder):
    task = keras_bert.TextClassifier(small_bert(), labels=("bad", "good"))
    task.save(folder / "task.keras")
    before = (folder / "task.keras").read_bytes()
    with full(), pytest.raises(OSError, match="Could not save"):
        task.save(folder / "task.keras")
    return before == (folder / "task.keras").read_bytes(), os.listdir(folder)


def test_a_saved_task_outlives_a_failed_save(tmp_path):
    assert fork(attempt_again, tmp_path) == (True, ["task.keras"])
    with pytest.raises(FileNotFoundError, match=r"The folder .*nowhere does not exist\. Make it first"):
        keras_bert.TextClassifier(small_bert(), labels=("bad", "good")).save(tmp_path / "nowhere" / "task.keras")
    assert os.listdir(tmp_path) == ["task.keras"]


def test_folders_that_a_failed_export_made_are_removed(tmp_path):
    for folder in (tmp_path / "new" / "out", tmp_path):
        with pytest.raises(OSError, match="no space"), new_version(folder, 1, overwrite=False):
            raise OSError("no space")
        with pytest.raises(OSError, match="no space"), new_folder(folder / "part" / "1"):
            raise OSError("no space")
        assert os.listdir(tmp_path) == []
