"""`keras-bert evaluate` and `predict`: the folder of a run is scored and asked."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.settings import FinetuneSettings
from tests.tasks.runs import reviews, run, train, write
from tests.tasks.small import TEXTS, small_task


def test_evaluate(finished, files):
    output, _ = finished
    metrics = json.loads((output / "metrics.json").read_text())
    result = run("evaluate", output, "--data", files[1], "--json")
    said = json.loads(result.stdout)
    assert {name: said[name] for name in metrics["valid"]} == pytest.approx(metrics["valid"])
    assert (said["labels"], said["positive"]) == (metrics["labels"], "yes")
    other = write(files[1].with_name("other.tsv"), [["x", "y"], ["the film is good", "maybe"]])
    with pytest.raises(ValueError, match=r"other.tsv:2 has the label 'maybe'.*'no', 'yes'. Received: 'maybe'"):
        run("evaluate", output, "--data", other, "--text", "x", "--label", "y")


@pytest.mark.usefixtures("eager")
def test_a_report_looks_for_the_training_rows_of_the_run(tmp_path, caplog):
    """Unless the training file has changed, or is missing."""
    head = ["text", "label"]
    learned = write(tmp_path / "train.tsv", [head, [TEXTS[2], "positive"], ["another film", "negative"]])
    test = write(tmp_path / "test.tsv", [head, *([text, "positive"] for text in TEXTS)])
    output = tmp_path / "run"
    output.mkdir()
    small_task("classifier").save(output / "model.keras")
    FinetuneSettings("classify", str(learned), str(test)).to_json(output / "settings.json")

    def duplicates(name):
        run("evaluate", output, "--data", test, "--report", tmp_path / name)
        return json.loads((tmp_path / name / "report.json").read_text())["duplicates"]

    with caplog.at_level("INFO", "keras_bert"):
        (found,) = duplicates("report")["rows"]
    assert (found["row"], found["training_row"], found["equal"]) == (4, 2, True)  # lines of the files
    assert f"The page also shows which rows are in {learned}" in caplog.text
    write(learned, [head, ["bad", "positive"]])
    assert duplicates("changed") is None
    learned.unlink()
    assert duplicates("missing") is None


def test_callbacks_that_are_not_on_this_machine(finished, files, tmp_path):
    """They were for the training."""
    copy = shutil.copytree(finished[0], tmp_path / "run")
    settings = json.loads((copy / "settings.json").read_text())
    (copy / "settings.json").write_text(json.dumps(settings | {"callbacks": ["of_another_machine:Mine"]}))
    assert run("evaluate", copy, "--data", files[1]).exit_code == 0


def test_settings_beside_another_file(finished, tmp_path):
    """They are not those of a run."""
    shutil.copy(finished[0] / "model.keras", tmp_path / "mine.keras")
    (tmp_path / "settings.json").write_text('{"theme": "dark"}')
    assert FinishedTask.load(tmp_path / "mine.keras").reading.text == ("text",)


def test_options_that_the_task_does_not_have(finished):
    for given, unused in (({"scale": 5.0}, "scale"), ({"choices": ("a",), "skip_bad": True}, "choices")):
        with pytest.raises(ValueError, match=f"task 'classify' are read without {unused}.* Received: {unused}="):
            FinishedTask.load(finished[0], **given)
    with pytest.raises(
        ValueError, match=r"`number` names 1 column, but the task reads 0.* Received: number=\('price',\)"
    ):
        FinishedTask.load(finished[0], number=("price",))
    with pytest.raises(ValueError, match=r"`text` names 2 columns, but the task was trained on 1"):
        FinishedTask.load(finished[0], text=("text", "other"))


def test_predict_drops_no_lines(finished):
    with pytest.raises(ValueError, match=r"--skip-empty and --skip-bad are for tables.* Received: standard input"):
        run("predict", finished[0], "--skip-empty", input="the film is good\n\n")


def test_evaluate_needs_a_file(finished, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"--data does not exist.*nothing.tsv"):
        run("evaluate", finished[0], "--data", tmp_path / "nothing.tsv")
    with pytest.raises(IsADirectoryError, match="--data must be a file of rows"):
        run("evaluate", finished[0], "--data", tmp_path)


@pytest.mark.long
def test_predict_a_table_from_standard_input(finished, files):
    command = [sys.executable, "-m", "keras_bert_cli", "predict", str(finished[0]), "-", "--format", "tsv"]
    with open(files[1]) as table:
        done = subprocess.run(command, stdin=table, capture_output=True, text=True, check=True)
    assert done.stdout == run("predict", finished[0], files[1]).stdout


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


def test_predict_never_takes_a_word_for_a_label_unless_that_is_asked(bert, tmp_path, caplog):
    caplog.set_level("INFO", logger="keras_bert")
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{label} {text}\n" for text, label in reviews(32, 0)))
    train(bert, "classify", lines, lines, tmp_path / "run", "--epochs", 1)
    assert not re.search("column|header", (tmp_path / "run/README.md").read_text())  # such lines have none
    finished = FinishedTask.load(tmp_path / "run")
    expected = [answer["score"] for answer in finished.predict_lines(enumerate(text for text, _ in reviews(32, 0)))]
    said = run("predict", tmp_path / "run", lines, "--format", "label-text").stdout.splitlines()
    assert [json.loads(line)["score"] for line in said] == pytest.approx(expected, abs=1e-5)
    caplog.clear()
    plain = tmp_path / "plain.txt"
    plain.write_text("good film\nbad film\n\ngood\n")
    said = run("predict", tmp_path / "run", plain).stdout
    assert said == run("predict", tmp_path / "run", input=plain.read_text()).stdout
    assert len(said.splitlines()) == 4
    assert re.search(r"Each line of .*plain.txt is one row of texts.*--format: tsv, .*, label-text", caplog.text)


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
