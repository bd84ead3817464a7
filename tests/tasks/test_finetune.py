"""`keras-bert finetune`, `evaluate` and `predict`: files in, a finished directory out, which is asked and scored."""

import json
import re

import keras
import numpy as np
import pytest

from keras_bert.tasks.run.finetune import finetune, load_encoder
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.settings import FinetuneSettings
from tests.tasks.runs import reviews, run, train, write


def test_finished_directory(finished):
    output, said = finished
    names = {path.name for path in output.iterdir()}
    assert names == {
        "model.keras", "labels.json", "settings.json", "metrics.json", "curve.png", "README.md",
        "metrics.jsonl", "tensorboard",
    }  # fmt: skip
    assert not output.with_name("reviews.partial").exists()
    assert json.loads((output / "labels.json").read_text()) == ["no", "yes"]
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["valid"]["accuracy"] > 0.9
    assert metrics["rows"] == {"train": 160, "valid": 32}
    scores = [epoch["scores"]["accuracy"] for epoch in metrics["epochs"]]
    assert metrics["best_epoch"] == 1 + scores.index(max(scores))
    assert f"accuracy\t{metrics['valid']['accuracy']:.4f}" in said
    assert (output / "curve.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    card = (output / "README.md").read_text()
    assert "# TextClassifier on train.tsv" in card
    assert f"| matthews | {metrics['valid']['matthews']:.4f} |" in card
    assert "| train | `train.tsv` | 160 |" in card
    assert "| text column | `text` |" in card
    assert "| learning rate | 0.03 |" in card
    assert not re.search(r"None|False|\(", card.partition("## How it was trained")[2].partition("AdamW")[0])


def test_the_model_is_the_one_that_was_scored(finished, files):
    output, _ = finished
    metrics = json.loads((output / "metrics.json").read_text())
    assert FinishedTask.load(output).evaluate(files[1]) == pytest.approx(metrics["valid"])
    assert not keras.models.load_model(output / "model.keras").compiled  # it holds no moments


def test_evaluate(finished, files):
    output, _ = finished
    metrics = json.loads((output / "metrics.json").read_text())
    result = run("evaluate", output, "--data", files[1], "--json")
    assert json.loads(result.stdout) == pytest.approx(metrics["valid"])
    other = write(files[1].with_name("other.tsv"), [["x", "y"], ["the film is good", "maybe"]])
    with pytest.raises(ValueError, match=r"other.tsv:2 has the label 'maybe'.*'no', 'yes'. Received: 'maybe'"):
        run("evaluate", output, "--data", other, "--text", "x", "--label", "y")


@pytest.mark.parametrize("strategy", ["auto", "mirrored"])
def test_several_devices_need_tensorflow(monkeypatch, tmp_path, strategy):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    settings = FinetuneSettings(kind="classify", train="train.tsv", valid="valid.tsv", strategy=strategy)
    with pytest.raises(ValueError, match=f"Use --strategy one.*Received: strategy='{strategy}', backend 'jax'"):
        finetune(settings, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_an_infinite_learning_rate():
    with pytest.raises(ValueError, match=r"learning_rate must be above 0 and finite.*Received: learning_rate=inf"):
        FinetuneSettings(kind="classify", train="train.tsv", valid="valid.tsv", learning_rate=float("inf"))


def test_evaluate_needs_a_file(finished, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"--data does not exist.*nothing.tsv"):
        run("evaluate", finished[0], "--data", tmp_path / "nothing.tsv")
    with pytest.raises(IsADirectoryError, match="--data must be a file of rows"):
        run("evaluate", finished[0], "--data", tmp_path)


def test_fit_takes_files(finished, files):
    task = FinishedTask.load(finished[0]).task
    history = task.fit(files[1], epochs=1, validation_data=str(files[1]), verbose=0)
    assert history.history["val_accuracy"][0] > 0.5
    assert task.predict(files[1]).shape == (32, 2)


def test_predict_lines(finished, tmp_path):
    output, _ = finished
    text = "\ufeffthe actor is good\r\n\nthe film\ris bad\n"
    (tmp_path / "T.TXT").write_bytes(text.encode())
    result = run("predict", output, input=text)
    assert run("predict", output, tmp_path / "T.TXT").stdout == result.stdout
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == 3  # an empty line has an answer too
    assert [answers[0]["label"], answers[2]["label"]] == ["yes", "no"]
    assert sum(answers[0]["scores"].values()) == pytest.approx(1)
    assert answers[0]["score"] == answers[0]["scores"]["yes"]


def test_predict_file(finished, files):
    output, _ = finished
    answers = [json.loads(line)["label"] for line in run("predict", output, files[1]).stdout.splitlines()]
    assert answers == [answer["label"] for answer in FinishedTask.load(output).predict(files[1])]
    assert np.mean(np.array(answers) == [label for _, label in reviews(32, 1)]) > 0.9


def test_predict_reads_the_header_as_training_did(bert, files, tmp_path):
    train(bert, "classify", *files, tmp_path / "run", "--epochs", 1, "--text", 0)
    assert json.loads((tmp_path / "run/settings.json").read_text())["reading"]["header"] is True
    other = write(tmp_path / "other.tsv", [["y", "x"], ["yes", "the film is good"]])
    for file, columns, rows in ((files[1], (), 32), (files[1], ("--text", 0), 32), (other, ("--text", "x"), 1)):
        assert len(run("predict", tmp_path / "run", file, *columns).stdout.splitlines()) == rows
    bare = write(tmp_path / "bare.tsv", [["the film is good"]])
    assert len(run("predict", tmp_path / "run", bare, "--no-header").stdout.splitlines()) == 1


def test_predict_reads_labelled_lines_as_training_did(bert, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{label} {text}\n" for text, label in reviews(32, 0)))
    train(bert, "classify", lines, lines, tmp_path / "run", "--epochs", 1)
    finished = FinishedTask.load(tmp_path / "run")
    expected = [answer["score"] for answer in finished.predict_lines(enumerate(text for text, _ in reviews(32, 0)))]
    said = run("predict", tmp_path / "run", lines).stdout.splitlines()
    assert [json.loads(line)["score"] for line in said] == pytest.approx(expected, abs=1e-5)


def test_standard_input_is_read_as_files_are(finished):
    for given, message in (
        (b"", "standard input is empty"),
        ("a\n영화".encode("cp949"), "standard input, line 2, is not UTF-8"),
    ):
        with pytest.raises(ValueError, match=message):
            run("predict", finished[0], input=given)


def test_no_finished_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="finished folder"):
        run("predict", tmp_path, input="x\n")


@pytest.mark.parametrize("damaged", ["{", "[]", "{}", '{"reading": {}, "colour": 1}'])
def test_damaged_settings(tmp_path, damaged):
    (tmp_path / "settings.json").write_text(damaged)
    with pytest.raises(ValueError, match=r"settings\.json (must|is not) .* again\. Received: "):
        FinetuneSettings.from_json(tmp_path / "settings.json")


@pytest.mark.parametrize(("freeze", "trained"), [(-1, set()), (1, {"pooler/"}), (0, {"layer_0", "pooler/"})])
def test_freeze(bert, freeze, trained):
    encoder = load_encoder(FinetuneSettings("classify", "", "", model=str(bert), freeze=freeze))
    assert {weight.path[: len("layer_0")] for weight in encoder.trainable_weights} == trained


# === The grid ===


@pytest.mark.long
def test_grid(bert, files, tmp_path, monkeypatch):
    from keras_bert.tasks.run import grid

    for name, values in (("batch_size", (16,)), ("learning_rate", (1e-5, 3e-2)), ("epochs", (1,))):
        monkeypatch.setitem(grid.GRID, name, values)
    train(bert, "classify", *files, tmp_path / "run", "--grid")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert [(done["batch_size"], done["learning_rate"]) for done in metrics["grid"]] == [(16, 1e-5), (16, 3e-2)]
    assert metrics["valid"]["accuracy"] == max(done["score"] for done in metrics["grid"])
    assert FinishedTask.load(tmp_path / "run").evaluate(files[1]) == pytest.approx(metrics["valid"])
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert "## The grid" in (tmp_path / "run/README.md").read_text()


def test_the_grid_is_the_paper_s():
    from keras_bert.tasks.run.grid import GRID

    assert GRID == {"batch_size": (16, 32), "learning_rate": (5e-5, 3e-5, 2e-5), "epochs": (2, 3, 4)}
