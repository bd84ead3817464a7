"""`keras-bert finetune --teacher`: a run that is interrupted, what is refused, and where the student starts."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.tasks.readers import Reading
from keras_bert.tasks.run.finetune import load_encoder
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.settings import FinetuneSettings
from tests.tasks.runs import reviews, run, squad, stopped_in_the_second_epoch, train, write
from tests.tasks.small import small_bert

ALL = ("--distill", "temperature=4", "--distill", "hidden=1", "--distill", "attention=1", "--distill", "relations=1")


def student(teacher, files, output, *options):
    """A run that starts from the teacher, since it has no --model."""
    return run(
        "finetune", "classify", "--train", files[0], "--valid", files[1], "--output", output, "--teacher", teacher,
        "--seq-length", 32, "--batch-size", 16, "--lr", 0.001, *options,
    )  # fmt: skip


@pytest.mark.long
def test_goes_on_with_its_teacher(files, finished, tmp_path, monkeypatch):
    """With the bits of a run that was not interrupted; and not with another teacher."""
    teacher, whole, broken = finished[0], tmp_path / "whole", tmp_path / "broken"
    student(teacher, files, whole, "--epochs", 2, *ALL)
    settings = json.loads((whole / "settings.json").read_text())
    assert (settings["teacher"], settings["model"]) == (str(teacher), str(teacher))
    assert len(settings["sha256"]) == 3
    assert "temperature 4, hidden 1" in (whole / "README.md").read_text()

    with stopped_in_the_second_epoch(monkeypatch):
        student(teacher, files, broken, "--epochs", 2, *ALL)
    with pytest.raises(ValueError, match=r"began with other settings.*Received: a difference in distill"):
        student(teacher, files, broken, "--epochs", 2)
    student(teacher, files, broken, "--epochs", 2, *ALL)
    assert (broken / "metrics.json").read_text() == (whole / "metrics.json").read_text()
    tasks = [keras.models.load_model(folder / "model.keras") for folder in (whole, broken, teacher)]
    for one, other, _ in zip(*(task.get_weights() for task in tasks), strict=True):
        assert np.array_equal(one, other)
    scores = FinishedTask.load(whole).evaluate(files[1], batch_size=16)  # as in the run: other sizes round otherwise
    assert scores == json.loads((whole / "metrics.json").read_text())["valid"]


@pytest.mark.long
def test_a_student_starts_from_its_teacher(files, finished, tmp_path):
    """With a learning rate of nearly 0, it keeps the weights of the teacher's encoder and head."""
    student(finished[0], files, tmp_path / "run", "--epochs", 1, "--layers", 1, "--lr", 1e-30)
    found, teacher = (keras.models.load_model(folder / "model.keras") for folder in (tmp_path / "run", finished[0]))
    assert all(np.array_equal(*pair) for pair in zip(found.get_weights(), teacher.get_weights(), strict=True))


@pytest.mark.long
def test_a_teacher_with_the_name_of_a_released_model(files, finished, tmp_path, monkeypatch):
    shutil.copytree(finished[0], tmp_path / "large")
    monkeypatch.chdir(tmp_path)
    student("large", files, tmp_path / "run", "--epochs", 1)
    settings = json.loads((tmp_path / "run/settings.json").read_text())
    assert (settings["teacher"], settings["model"]) == ("./large", "./large")


def test_a_head_of_another_shape():
    two, three = (keras_bert.TextClassifier(small_bert(), labels=labels) for labels in (("a", "b"), ("a", "b", "c")))
    with pytest.raises(ValueError, match=r"head has other weights than its teacher's.*Received: shapes"):
        three.copy_head(two)


def test_a_difference_in_the_reading_is_shown_alone(files, tmp_path):
    settings = FinetuneSettings("classify", *map(str, files), reading=Reading(positive="yes"))
    settings.to_json(tmp_path / "settings.json")
    other = dataclasses.replace(settings, reading=Reading(positive="no"))
    with pytest.raises(ValueError, match=r"Received: a difference in positive \(yes then, no now\)$"):
        other.check_same(tmp_path / "settings.json")


def test_fewer_layers_without_a_teacher(bert, files):
    settings = FinetuneSettings("classify", str(files[0]), str(files[1]), model=str(bert), layers=1)
    assert load_encoder(settings).config.num_hidden_layers == 1


def test_what_is_refused(bert, files, finished, tmp_path):
    teacher, output = finished[0], tmp_path / "run"
    other = write(tmp_path / "other.tsv", [["text", "label"], *([text, f"{label}!"] for text, label in reviews(20, 0))])
    for options, message in (
        (["--layers", 2], r"`layers` .--layers. must be at most 1, .* Received: layers=2"),
        (["--distill", "temperature=0"], r"`temperature` must be above 0.*temperature=0"),
        (["--distill", "logits=0"], "Nothing would be learned from the teacher"),
        (["--strategy", "mirrored"], r"A student is trained on one device.*strategy='mirrored'"),
        (["--long", "windows"], "must read long texts in windows if its teacher does"),
    ):
        with pytest.raises(ValueError, match=message):
            student(teacher, files, output, *options)
    with pytest.raises(ValueError, match=r"`distill` must be one of temperature, targets.*Received: distill='warmth'"):
        FinetuneSettings("classify", *map(str, files), teacher=str(teacher), distill={"warmth": 2})
    with pytest.raises(ValueError, match=r"does not know the label 'no!' of .* Its labels are 'no', 'yes'"):
        student(teacher, (other, other), output)
    with pytest.raises(ValueError, match="holds no task that could be a teacher"):
        student(bert, files, output)
    with pytest.raises(ValueError, match="holds no task that could be a teacher"):
        student(tmp_path, files, output)
    with pytest.raises(ValueError, match="`distill` was given without `teacher`"):
        train(bert, "classify", *files, output, "--distill", "hidden=1")
    questions = squad(tmp_path / "qa.json", [("where", "anna is in paris", "paris")])
    with pytest.raises(ValueError, match="The teacher is of the task 'classify', but its student is of 'answer'"):
        train(bert, "answer", questions, questions, output, "--teacher", teacher)
    assert not list(tmp_path.glob("run*"))
    for option, message in (("--distill", "NAME=NUMBER"), ("--teacher", "does not exist"), ("--layers", "equal to 1")):
        said = student(teacher, files, output, option, {"--layers": 0}.get(option, "nothing"))
        assert said.exit_code == 2
        assert message in said.stderr


def test_an_export_that_changes_is_another_teacher(files, tmp_path):
    (tmp_path / "export" / "text").mkdir(parents=True)
    (tmp_path / "export" / "text" / "saved_model.pb").write_bytes(b"one")
    settings = FinetuneSettings("classify", *map(str, files), teacher=str(tmp_path / "export"))
    settings.to_json(tmp_path / "settings.json")
    settings.check_same(tmp_path / "settings.json")
    (tmp_path / "export" / "text" / "saved_model.pb").write_bytes(b"two")
    with pytest.raises(ValueError, match=r"began with other settings or files.* the content of .*saved_model.pb"):
        settings.check_same(tmp_path / "settings.json")
