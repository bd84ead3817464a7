"""`--engine` and `--dtype` of predict, evaluate and embed: the same answers from ONNX Runtime."""

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from keras_bert_cli import app
from keras_bert_cli.options import asked_by
from tests.tasks.small import TEXTS, small_bert, small_task

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "0")  # other tests of this process train


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_predict_and_evaluate(tmp_path):
    small_task("classifier").save(tmp_path / "task.keras")
    (tmp_path / "rows.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    (tmp_path / "rows.tsv").write_text(
        "text\tlabel\n" + "".join(f"{text}\tpositive\n" for text in TEXTS), encoding="utf-8"
    )
    found = {}
    for engine in ("tensorflow", "onnxruntime"):
        lines = run("predict", tmp_path / "task.keras", tmp_path / "rows.txt", "--engine", engine).splitlines()
        scores = run("evaluate", tmp_path / "task.keras", "--data", tmp_path / "rows.tsv", "--engine", engine)
        found[engine] = [json.loads(line)["score"] for line in lines], scores
    (one, report), (other, same_report) = found.values()
    assert one == pytest.approx(other, abs=1e-5)
    assert report == same_report


def test_embed(tmp_path):
    small_bert().save(tmp_path / "bert.keras")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    found = []
    for number, options in enumerate(([], ["--engine", "auto"], ["--dtype", "int8"])):
        output = tmp_path / f"{number}.npy"
        run("embed", tmp_path / "texts.txt", "--model", tmp_path / "bert.keras", "--output", output, *options)
        found.append(np.load(output))
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=0.2)


def test_weights_are_frozen(monkeypatch):
    monkeypatch.delenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS")
    assert asked_by("a model", None, None) == "a model"
    assert os.environ["TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"] == "1"
