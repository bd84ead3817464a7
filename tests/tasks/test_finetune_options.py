"""Options of `keras-bert finetune` that the paper does not have: kept and resumed, callbacks, when a run stops."""

import json
import math
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks.finetune_recipe import OPTIONS
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.run import finetune as finetune_module
from keras_bert.tasks.run.best_epoch import BestEpoch
from keras_bert.tasks.run.finetune import finetune
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.import_callback import callback_of
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.tasks.task import Task
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.training.metrics_log import read_metrics
from tests.tasks.runs import record, run, stopped_in_the_second_epoch, train, weights, write

ALL = (
    "--layer-decay", 0.9, "--ema", 0.5, "--label-smoothing", 0.1, "--accumulate", 2,
    "--class-weight", "yes=2", "--class-weight", "no=0.5",
)  # fmt: skip
CALLBACK = "tests.tasks.test_finetune_options:Seen"
seen = []


class Seen(keras.callbacks.Callback):
    """Notes what it sees in the logs of each epoch."""

    def __init__(self, name="loss"):
        super().__init__()
        self.name = name

    def on_epoch_end(self, epoch, logs=None):
        seen.append((epoch, self.name, logs[self.name]))


@pytest.mark.long
def test_all_options_are_kept_and_resumed(bert, files, tmp_path, monkeypatch):
    """A run that stops after its first epoch ends with the bits of one that does not."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    callback = ("--callback", f'{CALLBACK}={{"name": "val_accuracy"}}')
    train(bert, "classify", *files, whole, "--epochs", 2, *ALL, *callback)
    metrics = record(whole)
    assert seen == [(epoch, "val_accuracy", metrics["epochs"][epoch]["scores"]["accuracy"]) for epoch in (0, 1)]
    settings = FinetuneSettings.from_json(whole / "settings.json")
    assert settings.recipe.options() == {
        "layer_decay": 0.9, "ema": 0.5, "label_smoothing": 0.1, "accumulate": 2, "class_weight": {"yes": 2.0, "no": 0.5}
    }  # fmt: skip
    assert set(settings.recipe.options()) == set(OPTIONS)
    card = (whole / "README.md").read_text()
    for row in ("layer decay | 0.9", "momentum of averaged weights | 0.5", "batches per step | 2", "yes 2, no 0.5"):
        assert row in card
    assert FinishedTask.load(whole).evaluate(files[1]) == pytest.approx(metrics["valid"])

    with stopped_in_the_second_epoch(monkeypatch):
        train(bert, "classify", *files, broken, "--epochs", 2, *ALL, *callback)
    train(bert, "classify", *files, broken, "--epochs", 2, *ALL, *callback)
    assert record(broken) == metrics
    assert all(np.array_equal(*pair) for pair in zip(weights(whole), weights(broken), strict=True))
    for one, other in zip(*(read_metrics(f"{folder}/metrics.jsonl") for folder in (whole, broken)), strict=True):
        assert {**one, "seconds_per_step": 0} == {**other, "seconds_per_step": 0}


def test_the_files_of_metrics_are_those_of_pretraining(finished):
    folder, metrics = finished[0], record(finished[0])
    records = read_metrics(f"{folder}/metrics.jsonl")
    assert [one["step"] for one in records] == [10, 10, 20, 20]
    assert set(records[0]) == {"step", "loss", "accuracy", "learning_rate", "seconds_per_step"}
    assert 0.03 > records[0]["learning_rate"] > records[2]["learning_rate"] == 0
    assert [one["loss"] for one in records[::2]] == [epoch["loss"] for epoch in metrics["epochs"]]
    assert [one["validation_loss"] for one in records[1::2]] == [epoch["val_loss"] for epoch in metrics["epochs"]]
    assert records[1]["validation_matthews"] == metrics["epochs"][0]["scores"]["matthews"]
    (events,) = (folder / "tensorboard").glob("events.*")
    drawn = {}
    for event in tf.compat.v1.train.summary_iterator(str(events)):
        for value in event.summary.value:
            drawn.setdefault(value.tag, {})[event.step] = float(tf.make_ndarray(value.tensor))
    for name in {*records[0], *records[1]} - {"step"}:
        assert drawn[name] == pytest.approx({one["step"]: one[name] for one in records if name in one})


def test_the_seconds_of_a_step_on_several_devices(tmp_path):
    """There, a callback is called after each loop of ten steps."""
    watch, written = BestEpoch(tmp_path, Rows([], [], "valid.tsv", [])), []
    watch.set_params({"steps": 16})
    watch.files = SimpleNamespace(write=written.append)
    watch.record = {"epochs": [{}]}
    watch.on_epoch_begin(0)
    for batch in (9, 15):
        watch.on_train_batch_end(batch)
    watch.set_model(SimpleNamespace(optimizer=SimpleNamespace(learning_rate=0.25)))
    watch._write_metrics({}, 8.0, {})
    assert written[0] == {"step": 16, "learning_rate": 0.25, "seconds_per_step": 0.5}


def epochs(*scores):
    return [{"epoch": 1 + number, "scores": {"accuracy": score}} for number, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "options", "stopped"),
    [
        ((), {"patience": 1}, False),
        ((0.5,), {"patience": 1}, False),
        ((0.5, 0.5), {"patience": 1}, True),
        ((0.5, 0.5), {"patience": 1, "best": 2}, False),  # of a lower loss
        ((0.5, 0.4, 0.6), {"patience": 2}, False),
        ((0.5, 0.4, 0.4), {"patience": 2}, True),
        ((0.5, 0.4, 0.4), {}, False),
        ((0.5,), {"floors": (0.6,)}, True),
        ((0.6,), {"floors": (0.6,)}, False),
        ((0.5, 0.6), {"floors": (0.6,)}, False),
    ],
)
def test_when_a_run_stops(tmp_path, scores, options, stopped):
    options = dict(options)
    best = options.pop("best", scores.index(max(scores)) + 1 if scores else None)
    if scores:
        found = {"chosen_by": "accuracy", "best_epoch": best, "valid": {"accuracy": max(scores)}}
        (tmp_path / "metrics.json").write_text(json.dumps({**found, "epochs": epochs(*scores)}))
    callback = BestEpoch(tmp_path, Rows([], [], "valid.tsv", []), **options)
    assert (callback.stopped, callback.pruned) == (stopped, stopped and "floors" in options)


def test_patience_ends_a_run_and_its_repetition(bert, files, tmp_path, monkeypatch):
    monkeypatch.setattr(BestEpoch, "finish", lambda *_: pytest.fail("an interruption after the last epoch"))
    options = ("--epochs", 5, "--patience", 1, "--lr", 1e-30)
    with pytest.raises(pytest.fail.Exception):
        train(bert, "classify", *files, tmp_path / "run", *options)
    monkeypatch.undo()
    train(bert, "classify", *files, tmp_path / "run", *options)
    metrics = record(tmp_path / "run")
    assert len(metrics["epochs"]) == 2  # a learning rate that changes nothing


def test_a_callback_ends_a_run_and_its_repetitions(bert, files, tmp_path, monkeypatch, eager):
    early = 'keras.callbacks:EarlyStopping={"monitor": "val_loss", "patience": 1, "min_delta": 100}'
    settings = FinetuneSettings(
        "classify", *map(str, files), model=str(bert), epochs=5, seq_length=32, callbacks=(early,)
    )
    for module, name in ((BestEpoch, "finish"), (finetune_module, "write_curve")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda *_: pytest.fail("an interruption after the last epoch"))
            with pytest.raises(pytest.fail.Exception):
                finetune(settings, tmp_path / "run")
    monkeypatch.setattr(TextClassifier, "fit", lambda *_, **options: pytest.fail("trained again"))
    assert len(finetune(settings, tmp_path / "run")["epochs"]) == 2


def test_a_score_where_lower_is_better_cannot_decide(files, tmp_path):
    settings = FinetuneSettings("classify", *map(str, files), best_by="calibration_error")
    with pytest.raises(ValueError, match=r"best_by cannot be calibration_error.* Received: "):
        finetune(settings, tmp_path / "run")


def test_options_that_do_not_go_together(bert, files, tmp_path):
    for options, said in (
        (("--seeds", 2, "--grid"), "add --search seed=0,1,2"),
        (("--average",), "--average needs --seeds"),
        (("--class-weight", "spam"), "It must be 'balanced', or LABEL=W"),
        (("--class-weight", "spam=inf"), "The weight of 'spam' must be finite, and not below 0."),
        (("--class-weight", "balanced", "--class-weight", "spam=2"), "'balanced' already weighs all labels."),
        (("--keep-accents",), "a trained one has its own rules. Leave them out"),
    ):
        words = ("--train", files[0], "--valid", files[1], "--output", tmp_path / "run", "--model", bert)
        result = run("finetune", "classify", *words, *options)
        assert result.exit_code == 2
        assert said in " ".join(result.output.replace("│", " ").split())


def test_callbacks_by_import_path():
    assert callback_of(CALLBACK).name == "loss"
    for wrong in ("nothing.here:Name", "keras.callbacks:Nothing", "keras", f"{CALLBACK}={{", f'{CALLBACK}={{"x": 1}}'):
        with pytest.raises(ValueError, match=r"cannot be made\. Name an importable class as package\.module:Name"):
            callback_of(wrong)
    with pytest.raises(TypeError, match=r"is not a subclass of keras.callbacks.Callback.*of the type Counter"):
        callback_of("collections:Counter")


def test_class_weights_of_a_label_that_is_not_there(bert, files, tmp_path):
    with pytest.raises(ValueError, match="'maybe'"):
        train(bert, "classify", *files, tmp_path / "run", "--class-weight", "maybe=2")
    one = write(tmp_path / "balanced.tsv", [["text", "label"], ["good", "yes"], ["bad", "no"], ["film", "no"]])
    train(bert, "classify", one, one, tmp_path / "run", "--epochs", 1, "--class-weight", "balanced")
    assert FinetuneSettings.from_json(tmp_path / "run/settings.json").class_weight == "balanced"


def test_the_loss_decides_between_equal_scores(tmp_path):
    """Patience counts the epochs after the best one."""
    best = BestEpoch(tmp_path, Rows([], [], "valid.tsv", []), patience=2, best_by="accuracy")
    for number, (score, loss) in enumerate([(0.5, 0.1), (0.9, 0.4), (0.9, 0.2), (0.9, 0.3), (0.8, 0.1)], 1):
        best._append({"epoch": number, "loss": 1.0, "val_loss": loss, "scores": {"accuracy": score}})
        assert best.record["best_epoch"] == (1, 2, 3, 3, 3)[number - 1]
        assert best.stopped == (number == 5)


def test_an_epoch_whose_score_is_not_a_number_is_not_the_best(tmp_path):
    best = BestEpoch(tmp_path, Rows([], [], "valid.tsv", []), best_by="r")
    best.details = {}
    for number, score in enumerate((math.nan, -0.5, math.nan), 1):
        best._append({"epoch": number, "loss": 1.0, "val_loss": 1 / number, "scores": {"r": score}})
        assert best.record["best_epoch"] == (1, 2, 2)[number - 1]


def test_a_best_epoch_stays_the_best_if_its_model_is_the_only_one_kept(tmp_path):
    """As in a run that an older version began, which kept the first of two equally good epochs."""
    found = [{"epoch": n, "loss": 1.0, "val_loss": 1.0 / n, "scores": {"accuracy": 0.9}} for n in (1, 2)]
    record = {"chosen_by": "accuracy", "best_epoch": 1, "valid": {"accuracy": 0.9}, "epochs": found}
    (tmp_path / "metrics.json").write_text(json.dumps(record))
    best = BestEpoch(tmp_path, Rows([], [], "valid.tsv", []), best_by="accuracy")
    best._append({"epoch": 3, "loss": 1.0, "val_loss": 0.1, "scores": {"accuracy": 0.8}})
    assert best.record["best_epoch"] == 1


def test_the_help_says_the_batch_size_of_each_task():
    for name, task in Task.commands().items():
        said = " ".join(run("finetune", name, "--help").output.replace("│", " ").split())
        assert f"Rows per batch. [default: ({task.default_batch_size})" in said
