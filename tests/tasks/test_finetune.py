"""`keras-bert finetune`: files in, a finished directory out."""

import json
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert import progress
from keras_bert.tasks.readers import Reading, Rows
from keras_bert.tasks.run import finetune as finetune_module
from keras_bert.tasks.run.best_epoch import BestEpoch
from keras_bert.tasks.run.finetune import finetune, load_encoder, read_files
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.tasks.run.split_rows import split_rows
from keras_bert.tasks.task import Task
from tests.tasks.runs import WORDS, reviews, run, train, write


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
    ranks = [(epoch["scores"]["accuracy"], -epoch["val_loss"]) for epoch in metrics["epochs"]]
    assert metrics["best_epoch"] == 1 + ranks.index(max(ranks))
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


def test_the_head_of_the_source_is_not_used(finished, caplog):
    with caplog.at_level("INFO"):
        bert = load_encoder(FinetuneSettings("classify", "x", "y", model=str(finished[0])))
    assert bert.source == str(finished[0])
    assert "starts with a new head. To train the trained head (classifier) further" in caplog.text


def test_imbalance_is_shown(bert, tmp_path, caplog):
    """Of 64 rows two have the rare label, and no row is predicted to have it."""
    rows = [["the film is good", "usual"]] * 62 + [["the actor is bad", "rare"]] * 2
    path = write(tmp_path / "a.tsv", [["text", "label"], *rows])
    said = train(bert, "classify", path, path, tmp_path / "run", "--epochs", 1, "--lr", 1e-9, "--positive", "rare")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    by_label = metrics["labels"]
    assert (by_label["rare"]["support"], by_label["usual"]["support"]) == (2, 62)
    one = "usual" if by_label["usual"]["predicted"] else "rare"  # the head is random
    assert f"Every row is predicted as '{one}', although" in caplog.text
    assert f"{path} is both the training and the validation file" in caplog.text
    assert metrics["positive"] == "rare"
    assert metrics["valid"]["f1"] == pytest.approx(by_label["rare"]["f1"])
    assert metrics["valid"]["f1_macro"] == pytest.approx((by_label["rare"]["f1"] + by_label["usual"]["f1"]) / 2)
    for shown in (said, run("evaluate", tmp_path / "run", "--data", path).stdout):
        assert re.search(r"^ +[\d.]+ +[\d.]+ +[\d.]+ +2  rare$", shown, re.MULTILINE)
        assert "f1 is that of the label 'rare'" in shown
    assert "of the label 'usual'" in run("evaluate", tmp_path / "run", "--data", path, "--positive", "usual").stdout
    card = (tmp_path / "run/README.md").read_text()
    assert "| `rare` | " in card
    assert "| label of f1 | `rare` |" in card


def test_best_by(bert, files, tmp_path):
    train(bert, "classify", *files, tmp_path / "run", "--epochs", 1, "--best-by", "f1_macro")
    assert json.loads((tmp_path / "run/metrics.json").read_text())["chosen_by"] == "f1_macro"
    settings = FinetuneSettings("classify", *map(str, files), str(bert), best_by="fame")
    with pytest.raises(ValueError, match=r"`best_by` must be one of accuracy, f1, f1_macro, matthews.*'fame'"):
        finetune(settings, tmp_path / "other")
    with pytest.raises(ValueError, match=r"--positive\) is 'maybe', which is not a label.*'no', 'yes'"):
        train(bert, "classify", *files, tmp_path / "other", "--positive", "maybe")


@pytest.mark.parametrize(("score", "chosen"), [("accuracy", 1), ("f1_macro", 2)])
def test_best_by_chooses_the_epoch(tmp_path, score, chosen):
    best = BestEpoch(tmp_path, Rows([], [], "valid.tsv", []), best_by=score)
    best.details = {}
    for epoch, (accuracy, f1) in enumerate([(0.9, 0.4), (0.8, 0.6), (0.7, 0.5)], 1):
        scores = {"accuracy": accuracy, "f1_macro": f1}
        best._append({"epoch": epoch, "loss": 1.0, "val_loss": 1.0, "scores": scores})
    assert (best.record["best_epoch"], best.record["chosen_by"]) == (chosen, score)
    assert best.record["valid"] == best.record["epochs"][chosen - 1]["scores"]


def test_several_devices_that_the_backend_cannot_use(monkeypatch, tmp_path):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    settings = FinetuneSettings(kind="classify", train="train.tsv", valid="valid.tsv", strategy="mirrored")
    with pytest.raises(ValueError, match=r"Use --strategy one,.*Received: strategy='mirrored', backend 'torch'"):
        finetune(settings, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_one_device_needs_no_tensorflow(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    monkeypatch.setattr(finetune_module, "strategy", lambda name: pytest.fail("needs TensorFlow"))
    assert finetune_module._several_devices("one") is None


def test_an_output_that_is_a_link(bert, files, tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "place")
    train(bert, "classify", *files, tmp_path / "link", "--epochs", 1)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "place" / "model.keras").exists()


def test_an_infinite_learning_rate():
    with pytest.raises(ValueError, match=r"`learning_rate` must be above 0 and finite.*Received: learning_rate=inf"):
        FinetuneSettings(kind="classify", train="train.tsv", valid="valid.tsv", learning_rate=float("inf"))


def test_fit_takes_files(finished, files):
    task = FinishedTask.load(finished[0]).task
    history = task.fit(files[1], epochs=1, validation_data=str(files[1]), verbose=0)
    assert history.history["val_accuracy"][0] > 0.5
    assert task.predict(files[1]).shape == (32, 2)


@pytest.mark.parametrize(("freeze", "trained"), [(-1, set()), (1, {"pooler/"}), (0, {"layer_0", "pooler/"})])
def test_freeze(bert, freeze, trained):
    encoder = load_encoder(FinetuneSettings("classify", "", "", model=str(bert), freeze=freeze))
    assert {weight.path[: len("layer_0")] for weight in encoder.trainable_weights} == trained


def test_split(bert, tmp_path, caplog):
    """A rare label stays in both parts, and the card has the share."""
    caplog.set_level("INFO", "keras_bert")
    rows = [*reviews(90, 0), *[["in seoul", "rare"]] * 10, ["in paris", "single"]]
    path = write(tmp_path / "a.tsv", [["text", "label"], *rows])
    arguments = ["--train", path, "--model", bert, "--epochs", 1, "--batch-size", 32, "--seq-length", 32]
    assert run("finetune", "classify", *arguments, "--split", 0.2, "--output", tmp_path / "run").exit_code == 0
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert sum(metrics["rows"].values()) == 101
    assert metrics["rows"]["valid"] in (19, 20)
    assert [metrics["labels"][label]["support"] for label in ("rare", "single")] == [2, 0]
    assert "Held out to find the best epoch: 20 of the 101 rows of" in caplog.text
    card = (tmp_path / "run/README.md").read_text()
    assert "a split of 0.2 of the file" in card
    assert "| split | 0.2 |" in card
    for given in ([], ["--split", 0.2, "--valid", path]):
        result = run("finetune", "classify", *arguments, *given, "--output", tmp_path / "other")
        assert result.exit_code == 2
    with pytest.raises(ValueError, match=r"`split` must be above 0 and below 1.*split=0.0"):
        run("finetune", "classify", *arguments, "--split", 0, "--output", tmp_path / "other")


@pytest.mark.parametrize(
    ("task", "y"),
    [
        ("classify", ["a", "b"] * 30 + ["c"]),
        ("classify", [["a"], ["a", "b"], []] * 20 + [["c"]]),
        ("regress", [row / 7 for row in range(61)]),
        ("choose", [0, 1, 2] * 20 + [0]),
        ("tag", [["O", "B-X"], ["O"]] * 30 + [["B-Y"]]),
        ("tag", [[(0, 1, "X")], []] * 30 + [[(0, 1, "Y")]]),
        ("answer", [{"text": ["a"], "answer_start": [0]}, {"text": [], "answer_start": []}] * 30 + [{"text": []}]),
    ],
)
def test_split_rows(task, y):
    rows = Rows(([str(row) for row in range(61)], ["x"] * 61), y, "a.tsv", list(range(2, 63)))
    kept, held_out = split_rows(rows, 0.25, Task.named(task).labels_of(rows))
    assert [part.ids for part in split_rows(rows, 0.25, Task.named(task).labels_of(rows))] == [kept.ids, held_out.ids]
    assert sorted([*kept.ids, *held_out.ids]) == rows.ids
    assert [int(text) + 2 for text in held_out.x[0]] == held_out.ids
    assert abs(len(held_out) - 61 / 4) < 2
    assert held_out.y == [y[line - 2] for line in held_out.ids]
    labels = {label for _, label in Task.named(task).labels_of(rows)}
    assert {label for _, label in Task.named(task).labels_of(kept)} == labels
    if task == "classify" and isinstance(y[0], str):
        assert abs(held_out.y.count("a") - 7.5) <= 1
    if task == "regress":
        assert np.mean(held_out.y) == pytest.approx(np.mean(y), abs=0.3)
    with pytest.raises(ValueError, match=r"leaves no row of a.tsv to validate on"):
        split_rows(rows, 0.001, Task.named(task).labels_of(rows))


@pytest.mark.parametrize("first", [("text", "label"), ("the film is good", "yes")])
def test_names_that_are_read_as_a_row(tmp_path, caplog, first):
    path = write(tmp_path / "a.tsv", [first, *reviews(20, 0)])
    read_files(FinetuneSettings("classify", str(path), str(path), reading=Reading(text=(0,), label=1)))
    said = f"The label of line 1 of {path}, 'label', occurs nowhere else. If this line has the names"
    assert (said in caplog.text) == (first[1] == "label")


def test_labels_that_are_numbers_and_words(tmp_path, caplog):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "a", "label": {label}}}\n' for label in ("1", '"good"', "0", '"bad"')))
    read_files(FinetuneSettings("classify", str(path), str(path)))
    assert f"The labels of {path} are numbers and words: '0', '1', 'bad', 'good'. If two of them" in caplog.text


@pytest.mark.parametrize("options", [{}, {"separator": ","}])
def test_labels_that_several_may_stand_in(tmp_path, caplog, options):
    path, names = tmp_path / "a.tsv", tmp_path / "b.tsv"
    write(path, [["text", "label"], ["a", "short,good"], ["b", "short"], ["c", "good"]])
    write(names, [["text", "label"], ["a", "Paris, France"], ["b", "Rome, Italy"]])
    for file in (path, names):
        read_files(FinetuneSettings("classify", str(file), str(file), reading=Reading(**options)))
    said = "are read as 3 different ones, such as 'short,good'. If ',' separates several labels of one text, add"
    assert caplog.text.count(said) == caplog.text.count("--separator") == (not options)


def test_labels_that_differ_in_spaces(tmp_path, caplog):
    """No mark separates them, so none is advised."""
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"text": "a", "label": "{label}"}}\n' for label in ("good", "good ", "bad")))
    read_files(FinetuneSettings("classify", str(path), str(path)))
    assert "--separator" not in caplog.text


def test_a_scale_without_scores(bert, tmp_path):
    pairs = write(tmp_path / "pairs.tsv", [["a", "b"], ["good", "bad"], ["anna", "paul"]])
    with pytest.raises(ValueError, match=r"`scale` divides scores, but no scores were read.* Received: scale=5"):
        train(bert, "embed", pairs, pairs, tmp_path / "run", "--text", "a", "--text", "b", "--scale", 5)


@pytest.mark.usefixtures("eager")
def test_random_weights_with_a_vocabulary(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    settings = FinetuneSettings("classify", "", "", size="tiny", vocab=str(vocabulary), cased=True, seq_length=16)
    encoder = load_encoder(settings)
    assert (encoder.config.vocab_size, encoder.config.hidden_size) == (5 + len(WORDS), 128)
    assert not encoder.preprocessor.lowercase
    assert encoder.preprocessor.vocabulary["film"] == 7
    with pytest.raises(ValueError, match=r"`size` and `vocab` belong together.*size='tiny', vocab=None"):
        FinetuneSettings("classify", "", "", size="tiny")
    path = write(tmp_path / "a.tsv", [["text", "label"], *reviews(16, 0)])
    arguments = ["--train", path, "--valid", path, "--output", tmp_path / "run", "--epochs", 1, "--seq-length", 16]
    assert run("finetune", "classify", *arguments, "--model", "base", "--size", "tiny").exit_code == 2
    assert run("finetune", "classify", *arguments, "--size", "tiny", "--vocab", vocabulary).exit_code == 0
    assert "from random weights of the size tiny" in (tmp_path / "run/README.md").read_text()


def test_files_are_looked_at_before_keras_is_imported(tmp_path):
    """A wrong file is an error at once, and the package can still be imported afterwards."""
    good = write(tmp_path / "a.tsv", [["text", "label"], ["good", "yes"], ["bad", "no"]])
    for name, data, message in (
        ("a.doc", b"x", "The format of .*a.doc is unknown"),
        ("b.csv", "text,label\n영화,1\n".encode("cp949"), r"b.csv, line 2, is not UTF-8.*cp949"),
        ("c.csv", b"film,label\nx,1\n", "c.csv has no column 'text'"),
    ):
        (tmp_path / name).write_bytes(data)
        words = ["finetune", "classify", "--train", str(good), "--valid", str(tmp_path / name), "--output", "run"]
        command = [sys.executable, "-X", "importtime", "-m", "keras_bert_cli", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert re.search(rf"^keras-bert: .*{message}", done.stderr, re.MULTILINE)
        assert not re.findall(r"\| +(?:keras|tensorflow|torch|jax)$", done.stderr, re.MULTILINE)


def test_log_lines_within_an_epoch(bert, files, tmp_path, caplog, monkeypatch):
    caplog.set_level("INFO", "keras_bert")
    monkeypatch.setattr(progress, "_SECONDS", 0)
    train(bert, "classify", *files, tmp_path / "run", "--epochs", 1)
    lines = [line for line in caplog.messages if line.startswith("Epoch 1: step")]
    assert len(lines) == 9  # of 10 steps
    assert re.fullmatch(r"Epoch 1: step 3 of 10 \(30 %\), less than a minute left, loss \d\.\d{4}", lines[2])
