"""The commands of docs/pretraining.md for MLPerf's target run as they stand there, on made-up data and shorter rows."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import keras_bert
import keras_bert_cli as cli
from keras_bert.pretraining import write_examples
from keras_bert.weights import google
from keras_bert.weights.checkpoint import Checkpoint
from tests.pretraining.corpus import VOCABULARY, corpus
from tests.pretraining.small_source import write_source

PAGE = Path(__file__).parents[2] / "docs" / "pretraining.md"
SMALLER = {"--seq-length 512": 16, "--max-predictions 76": 3, "--steps 12000": 2, "--batch-size 256": 8}


@pytest.mark.long
def test_the_commands_run(tmp_path, monkeypatch):
    section = PAGE.read_text(encoding="utf-8").split("\n## MLPerf's target\n")[1].split("\n## ")[0]
    commands = re.findall(r"^    keras-bert (.+)$", section.replace("\\\n", ""), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["evaluate", "examples", "pretrain", "evaluate"]
    monkeypatch.chdir(tmp_path)
    files = corpus(tmp_path, files=1, documents=30)
    text = (files / "0.txt").read_text(encoding="utf-8").replace(". ", ".\n")  # a sentence on each line
    (tmp_path / "mlperf" / "results").mkdir(parents=True)
    (tmp_path / "mlperf" / "results" / "part-00000-of-00500").write_text(text, encoding="utf-8")
    write_source("source", VOCABULARY, positions=16)
    pretrainer = keras_bert.Pretrainer(keras_bert.load("source"))
    google.write_checkpoint(Checkpoint.of(pretrainer), tmp_path / "mlperf" / "start")
    write_examples(files, "static", vocabulary=VOCABULARY, seq_length=16, mode="static", workers=1)
    (tmp_path / "mlperf" / "eval").mkdir()
    shutil.copy("static/examples-00000.tfrecord", "mlperf/eval/eval_10k.tfrecord")

    shown = []
    for command in commands:
        for option, value in SMALLER.items():
            command = command.replace(option, f"{option.split()[0]} {value}")
        found = CliRunner().invoke(cli.app, shlex.split(command), catch_exceptions=False)
        assert found.exit_code == 0
        shown.append(found.output)
    accuracies = [re.search(r"masked_lm_accuracy\t(\S+)", shown[index])[1] for index in (0, 3)]
    assert all(0 <= float(accuracy) <= 1 for accuracy in accuracies)
    assert accuracies[0] != accuracies[1]
