"""Runs of the command line, and the small files that they learn from."""

import contextlib
import json
import random
from pathlib import Path

import keras
import numpy as np
import pytest
from typer.testing import CliRunner

from keras_bert.tasks.metrics.scores import LOWER_IS_BETTER
from keras_bert.tasks.run.best_epoch import BestEpoch
from keras_bert_cli import app
from keras_bert_cli.finetune_tasks import TASKS

WORDS = ("good", "bad", "film", "actor", "anna", "paul", "seoul", "paris", "who", "where", "is", "in", "the", "ran")


def run(*arguments, input=None):
    return CliRunner().invoke(app, list(map(str, arguments)), input=input, catch_exceptions=False)


def train(bert, kind, train, valid, output, *options):
    result = run(
        "finetune", kind, "--train", train, "--valid", valid, "--output", output, "--model", bert,
        "--seq-length", 32, "--batch-size", 16, "--lr", 0.03, *options,
    )  # fmt: skip
    assert result.exit_code == 0
    scores = json.loads((Path(output) / "metrics.json").read_text())["valid"]
    assert {*scores} - LOWER_IS_BETTER <= {*TASKS[kind].scores}  # what --best-by can name
    return result.output


def check_student(teacher, kind, rows, *options):
    """A run with this teacher starts with its weights, and keeps them with a learning rate of nearly 0."""
    import tensorflow as tf

    student = teacher.parent / "student"
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)  # for two steps, a graph takes longer
    try:
        done = run(
            "finetune", kind, "--train", rows, "--valid", rows, "--output", student, "--teacher", teacher,
            "--distill", "logits=1", "--seq-length", 32, "--steps", 2, "--lr", 1e-30, *options,
        )  # fmt: skip
    finally:
        tf.config.run_functions_eagerly(before)
    assert done.exit_code == 0
    assert "logits 1" in (student / "README.md").read_text()
    ours, theirs = (keras.models.load_model(folder / "model.keras").get_weights() for folder in (student, teacher))
    assert all(np.array_equal(*pair) for pair in zip(ours, theirs, strict=True))


@contextlib.contextmanager
def stopped_in_the_second_epoch(monkeypatch):
    """A block that must fail when a run begins its second epoch."""

    def stop(self, epoch, logs=None, begin=BestEpoch.on_epoch_begin):
        if epoch == 1:
            raise OSError("no power")
        begin(self, epoch, logs)

    with monkeypatch.context() as patch:
        patch.setattr(BestEpoch, "on_epoch_begin", stop)
        with pytest.raises(OSError, match="no power"):
            yield


def write(path, rows):
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return path


def reviews(count, seed):
    """The label is whether the film is good."""
    dice = random.Random(seed)
    for _ in range(count):
        good = dice.random() < 0.5
        yield [f"the {dice.choice(WORDS[3:6])} is {'good' if good else 'bad'}", ("no", "yes")[good]]


def squad(path, entries):
    entries = [
        {
            "id": f"q{number}",
            "question": question,
            "answers": [{"text": text, "answer_start": context.find(text)}] if text else [],
        }
        | {"context": context}
        for number, (question, context, text) in enumerate(entries)
    ]
    path.write_text(
        json.dumps({"data": [{"paragraphs": [{"context": e.pop("context"), "qas": [e]} for e in entries]}]})
    )
    return path


def record(folder, name="metrics.json"):
    return json.loads((folder / name).read_text())


def weights(folder):
    return keras.models.load_model(folder / "model.keras").get_weights()
