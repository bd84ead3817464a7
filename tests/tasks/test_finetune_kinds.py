"""A run of each kind of task, from its files to its answers."""

import dataclasses
import json
import random

import keras
import numpy as np
import pytest

from keras_bert.tasks.readers import Reading
from keras_bert.tasks.run.finetune import read_files
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.tasks.token_tagger import TokenTagger
from tests.tasks.runs import check_student, run, squad, train, write


def test_regress_pairs(bert, tmp_path):
    dice = random.Random(0)
    rows = [["the film", dice.choice(["the film", "bad actor"])] for _ in range(480)]
    rows = write(tmp_path / "a.tsv", [[*row, 4.5 if row[0] == row[1] else 0.5] for row in rows])
    options = ["--text", "0", "--text", "1", "--label", "2"]
    assert "spearman" in train(bert, "regress", rows, rows, tmp_path / "run", *options)
    check_student(tmp_path / "run", "regress", rows, *options)
    answers = run("predict", tmp_path / "run", input="the film\tthe film\nthe film\tbad actor\n").stdout.splitlines()
    assert json.loads(answers[0])["score"] > json.loads(answers[1])["score"]
    assert 'task.score(("a text", "another"))' in (tmp_path / "run/README.md").read_text()


def test_cosine(bert, tmp_path):
    rows = [["the film", ("the film", "bad actor")[row % 2], (5, 0)[row % 2]] for row in range(320)]
    path = write(tmp_path / "a.tsv", rows)
    options = ["--text", "0", "--text", "1", "--label", "2", "--epochs", 1, "--cosine"]
    with pytest.raises(ValueError, match="--scale 5"):
        train(bert, "regress", path, path, tmp_path / "run", *options)
    fits = write(tmp_path / "fits.tsv", [[*row[:2], row[2] / 5] for row in rows])
    with pytest.raises(ValueError, match=r"The score at .*a\.tsv:1 is not between -1 and 1"):
        train(bert, "regress", fits, path, tmp_path / "run", *options)
    train(bert, "regress", path, path, tmp_path / "run", *options, "--scale", 5)
    finished = FinishedTask.load(tmp_path / "run")
    assert (finished.task.pairs, finished.reading.scale) == ("cosine", 5)
    assert finished.task.score(("the film", "the film")) == pytest.approx(1)
    assert finished.task.score(("the film", "bad actor")) < 0.5
    with pytest.raises(ValueError, match=r"`cosine` is only for scores of two texts"):
        train(bert, "regress", path, path, tmp_path / "other", "--text", "0", "--label", "2", "--cosine")
    with pytest.raises(ValueError, match=r"`cosine` is only for scores of two texts"):
        FinetuneSettings("classify", "a.tsv", "a.tsv", reading=Reading(text=(0, 1), label=2), cosine=True)


def test_several_labels(bert, tmp_path):
    rows = [["good film", ["good", "film"]], ["bad film", ["film"]], ["good actor", ["good"]], ["bad actor", []]] * 80
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    train(bert, "classify", path, path, tmp_path / "run")
    check_student(tmp_path / "run", "classify", path)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["chosen_by"] == "f1_micro"
    assert metrics["valid"]["f1_micro"] > 0.9
    train(bert, "classify", path, path, tmp_path / "calibrated", "--calibrate", "--epochs", 1)
    found = json.loads((tmp_path / "calibrated/metrics.json").read_text())["calibration"]
    assert np.mean([one["f1"] for one in found["labels"].values()]) == pytest.approx(found["valid"]["f1_macro"])
    card = (tmp_path / "calibrated/README.md").read_text()
    assert found["set"]["thresholds"].keys() == {"film", "good"}
    assert all(f"| {label} | {threshold:.4f} |" in card for label, threshold in found["set"]["thresholds"].items())
    path.write_text('{"text": "good film", "label": []}\n')
    with pytest.raises(ValueError, match=r"No row of .*a.jsonl has a label"):
        train(bert, "classify", path, path, tmp_path / "other")


def test_tag_words(bert, tmp_path):
    sentences = ["anna/B-PER ran/O in/O seoul/B-LOC", "the/O film/O is/O in/O paris/B-LOC", "paul/B-PER ran/O"] * 240
    path = tmp_path / "a.conll"
    path.write_text("\n\n".join(text.replace("/", "\t").replace(" ", "\n") for text in sentences))
    train(bert, "tag", path, path, tmp_path / "run")
    check_student(tmp_path / "run", "tag", path)
    labels = json.loads((tmp_path / "run/labels.json").read_text())
    assert labels == ["O", "B-LOC", "B-PER"]
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["chosen_by"] == "entity_f1"
    assert metrics["valid"]["entity_f1"] > 0.9
    answer = json.loads(run("predict", tmp_path / "run", input="Anna ran in Paris\n").stdout)
    assert [(found["type"], found["text"]) for found in answer["entities"]] == [("PER", "Anna"), ("LOC", "Paris")]


def test_tag_characters(bert, tmp_path):
    """KLUE's entities may end within a word, so every piece has a label of its own."""
    path = tmp_path / "a.tsv"
    path.write_text("박\tB-PS\n씨\tO\n\n서\tB-LC\n울\tI-LC\n")
    rows = TokenTagger.read_rows(path, Reading(format="klue-ner"))
    task = TokenTagger.from_rows(keras.models.load_model(bert), rows, FinetuneSettings("tag", "", ""))
    assert task.labels == ("O", "B-LC", "B-PS", "I-LC", "I-PS")
    assert task.unit == "piece"
    reading = Reading(format="klue-ner")
    weighted = FinetuneSettings("tag", str(path), str(path), reading=reading, class_weight={"O": 0.5})
    read_files(weighted)  # accepts the weight of O, which no entity has
    with pytest.raises(ValueError, match="class_weight names the label 'B-QT'"):
        read_files(dataclasses.replace(weighted, class_weight={"B-QT": 2.0}))


def test_answer(bert, tmp_path):
    dice = random.Random(0)
    entries = []
    for _ in range(60):
        who, where = dice.choice(["anna", "paul"]), dice.choice(["seoul", "paris"])
        entries.append((*dice.choice([("who ran", who), ("where is the film", "")]), where))
    entries = [(question, f"{text or 'anna'} ran in {where}", text) for question, text, where in entries]
    path = squad(tmp_path / "a.json", entries)
    train(bert, "answer", path, path, tmp_path / "run", "--epochs", 6)
    check_student(tmp_path / "run", "answer", path)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["valid"]["f1"] > 0.9
    answers = [json.loads(line) for line in run("predict", tmp_path / "run", path).stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [f"q{number}" for number in range(60)]
    right = [answer["text"] == text for answer, (_, _, text) in zip(answers, entries, strict=True)]
    assert np.mean(right) == pytest.approx(metrics["valid"]["exact_match"])


def test_choose(bert, tmp_path):
    dice = random.Random(0)
    rows = [["prompt", "one", "two", "label"]]
    for _ in range(64):
        right = dice.randrange(2)
        rows.append(["the film", *(("good", "bad") if right == 0 else ("bad", "good")), right])
    path = write(tmp_path / "a.tsv", rows)
    options = ["--text", "prompt", "--choice", "one", "--choice", "two", "--epochs", "4"]
    train(bert, "choose", path, path, tmp_path / "run", *options)
    check_student(tmp_path / "run", "choose", path, *options[:-2])
    answers = run("predict", tmp_path / "run", input="the film\tbad\tgood\n").stdout
    assert json.loads(answers)["text"] == "good"
    with pytest.raises(ValueError, match=r"Line 1 has 2 columns instead of 3.*tabs"):
        run("predict", tmp_path / "run", input="the film\tbad\n")


def test_lora_in_mixed_precision(bert, files, tmp_path):
    train(bert, "classify", *files, tmp_path / "run", "--epochs", 1, "--lora", 2, "--dtype", "mixed_bfloat16")
    task = FinishedTask.load(tmp_path / "run").task
    before, after = (model.get_layer("layer_0_output").kernel for model in (keras.models.load_model(bert), task.bert))
    assert np.array_equal(before, after)
    assert task.bert.get_layer("layer_0_attention_qkv").lora_enabled
    assert task.bert.dtype_policy.name == "mixed_bfloat16"
