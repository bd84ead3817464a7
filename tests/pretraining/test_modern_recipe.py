"""The recipe base-one-gpu-24h: batches that grow, its own examples, and a result that other packages read."""

import json
from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

import keras_bert
import keras_bert_cli as cli
from keras_bert.pretraining import RECIPES, Recipe, pretrain, write_examples
from keras_bert.pretraining.run.pretrain import _longer_by
from keras_bert.training.metrics_log import MetricsLog, read_metrics
from tests.pretraining.corpus import VOCABULARY, corpus
from tests.pretraining.small_source import write_source

NAME = "base-one-gpu-24h"


@pytest.mark.parametrize("phases", [1, 2])
def test_growing_batches_read_each_example_once(phases):
    recipe = Recipe(steps=101, batch_size=64, accumulate=6, ramp=0.3, phases=(0.2, 0.8))
    stages = recipe.stages(phases)
    assert [stage.begin for stage in stages] == [0, *(stage.end for stage in stages[:-1])]
    assert stages[-1].end == 101
    for stage in stages:
        assert stage.batch_size == (16 if stage.end <= 15 else 32 if stage.end <= 30 else 64)
        assert stage.batch_size / stage.accumulate <= 64 / 6
    for before, after in pairwise(stages):
        read = (before.first_batch + before.end - before.begin) * before.batch_size
        read = read if before.phase == after.phase else 0
        assert 0 <= after.first_batch * after.batch_size - read < after.batch_size


def test_without_a_ramp_there_is_a_stage_for_each_phase():
    found = [(stage.end, stage.first_batch, stage.batch_size) for stage in Recipe(steps=100).stages(2)]
    assert found == [(90, 0, 256), (100, 0, 256)]


def test_a_ramp_needs_batches_that_can_be_quartered():
    with pytest.raises(ValueError, match="must be a multiple of 4"):
        Recipe(batch_size=6, ramp=0.5)
    with pytest.raises(ValueError, match="ramp"):
        Recipe(ramp=2.0)


def test_the_time_left_counts_larger_batches(caplog):
    caplog.set_level("INFO", logger="keras_bert")
    with MetricsLog(None, start=0, steps=40, longer_by=60.0, batch_size=4) as log:
        for step in (10, 40):
            log(step, {"tokens": 9.0}, loop_steps=10, seconds=20.0)
    assert caplog.messages[-1].endswith("0:02:00 left")


def test_the_time_left_counts_longer_rows():
    stages = Recipe(steps=100).stages(2)
    assert _longer_by(stages, [128, 512]) == 3 * 10
    assert _longer_by(stages[1:], [128, 512]) == 0


def test_other_examples_are_reported(tmp_path, caplog):
    options = {"vocabulary": VOCABULARY, "seq_length": 16, "workers": 1}
    write_examples(corpus(tmp_path, files=1, documents=8), tmp_path / "data", **options)
    with pytest.raises(ValueError, match="neither a known name nor a path"):
        pretrain(tmp_path / "data", tmp_path / "run", recipe=RECIPES[NAME], source="mistyped", strategy="one")
    assert "seq_length=16 instead of 128, nsp=True instead of False, rate=0.15 instead of 0.3" in caplog.text


@pytest.mark.long
def test_others_read_the_result(tmp_path):
    keras_hub = pytest.importorskip("keras_hub", reason="pip install 'keras3-bert[keras-nlp]'")
    transformers = pytest.importorskip("transformers", reason="pip install 'keras3-bert[test]'")

    def command(*words):
        found = CliRunner().invoke(cli.app, [*map(str, words)], catch_exceptions=False)
        assert found.exit_code == 0
        return found.output

    files = corpus(tmp_path, files=1, documents=30)
    write_source(tmp_path / "source", VOCABULARY, positions=16)
    data, run = tmp_path / "data", tmp_path / "run"
    more = ["--vocab", tmp_path / "vocab.txt", "--seq-length", 16, "--workers", 1]
    command("examples", files, "--recipe", NAME, "--output", data, *more)
    settings = json.loads((data / "examples.json").read_text())["settings"]
    assert (settings["nsp"], settings["masking"]["rate"], settings["seq_length"]) == (False, 0.3, 16)
    more = ["--from", tmp_path / "source", "--strategy", "one", "--steps", 10, "--steps-per-loop", 1]
    command("pretrain", "--recipe", NAME, "--data", data, "--output", run, "--batch-size", 8, "--accumulate", 2, *more)
    tokens = [record["tokens"] for record in read_metrics(f"{run}/metrics.jsonl")]
    assert [8 * 8 < count <= 8 * 16 for count in tokens] == [False] * 3 + [True] * 7
    assert tokens[0] <= 2 * 16

    ours, rng = keras_bert.Pretrainer.load(run, dtype="float32"), np.random.default_rng(0)
    ids = rng.integers(5, len(VOCABULARY), (2, 9), dtype="int32")
    x = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}
    for form in ("hf", "google", "keras-hub"):
        assert float(command("convert", run, "--to", form, tmp_path / form).split("outputs\t")[1]) < 1e-5
    import torch

    model = transformers.BertForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    with torch.no_grad():
        theirs = model(torch.tensor(ids, dtype=torch.int64)).logits.numpy()
    found = ours({**x, "masked_lm_positions": np.tile(np.arange(9, dtype="int32"), (2, 1))})["mlm_logits"]
    np.testing.assert_allclose(np.asarray(found), theirs, atol=1e-5)
    backbone = keras_hub.models.BertBackbone.from_preset(str(tmp_path / "keras-hub"))
    theirs = backbone({"token_ids": ids, "padding_mask": ids > 0, "segment_ids": ids * 0})["sequence_output"]
    np.testing.assert_allclose(np.asarray(ours.bert(x)["sequence_output"]), np.asarray(theirs), atol=1e-5)
