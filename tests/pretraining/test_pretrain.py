"""Runs from start to end: phases, recipes, kills, and directories that cannot be used."""

import dataclasses
import json
import math
import re
import shutil
import signal
import sys
from collections import Counter
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from typer.testing import CliRunner

import keras_bert
import keras_bert_cli as cli
from keras_bert.pretraining import RECIPES, Recipe, evaluate, pretrain, write_examples
from keras_bert.pretraining.examples.read_examples import ExampleReader
from keras_bert.pretraining.run import evaluation
from keras_bert.pretraining.run import run_directory as run_directory_module
from keras_bert.pretraining.run.initial_model import read_resized
from keras_bert.pretraining.run.run_directory import finished_model, run_directory, write_model
from keras_bert.training.metrics_log import MetricsLog, read_metrics
from keras_bert.training.optimizer import WarmupLinearDecay
from keras_bert.vectors import Pooling
from keras_bert.weights import our_folder
from keras_bert.weights.checkpoint import Checkpoint
from tests.pretraining.small_source import write_source
from tests.training.small_training import weights

WORDS = [f"w{i}" for i in range(40)]
VOCABULARY = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS])
RECIPE = Recipe(
    steps=20, batch_size=8, learning_rate=1e-2, warmup=0.1, phases=(0.6, 0.4), dropout=0.2, dtype="float32", seed=3
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Examples of length 12 and 16, and a source of 1 layer and width 8."""
    folder = tmp_path_factory.mktemp("pretrain")
    rng = np.random.default_rng(0)
    texts = ["\n".join(" ".join(rng.choice(WORDS, 6)) + " ." for _ in range(12)) for _ in range(30)]
    for length in (12, 16):
        _write(texts, folder / str(length), VOCABULARY, length)
    write_source(folder / "source", VOCABULARY, positions=16)
    return folder


def _write(texts, directory, vocabulary, length):
    write_examples(iter(texts), directory, vocabulary=vocabulary, seq_length=length, sentences="line", workers=1)


def run(folder, output, recipe=RECIPE, data=("12", "16"), **options):
    data = [folder / name for name in data]
    return pretrain(data, output, recipe=recipe, source=folder / "source", strategy="one", **options)


def test_hyperparameters_of_the_paper():
    paper = RECIPES["paper-base"]
    assert (paper.batch_size, paper.steps, paper.learning_rate, paper.warmup_steps) == (256, 1_000_000, 1e-4, 10_000)
    assert (paper.weight_decay, paper.phase_ends(2), paper.phase_ends(1)) == (0.01, [900_000, 1_000_000], [1_000_000])
    assert isinstance(paper.build_optimizer(), keras_bert.AdamW)
    assert isinstance(
        dataclasses.replace(paper, dtype="mixed_float16").build_optimizer(), keras.optimizers.LossScaleOptimizer
    )
    for recipe in RECIPES.values():
        assert keras_bert.BertConfig.from_size(recipe.size)
        assert recipe.batch_size % recipe.accumulate == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "bfloat16"}, "float32, mixed_bfloat16, mixed_float16"),
        ({"phases": (0.9, 0.2)}, "add up to 1"),
        ({"warmup": 10_000}, "between 0 and 1"),
        ({"dropout": 1.0}, "below 1"),
        ({"optimizer": "sgd"}, "adamw, lamb"),
        ({"steps": 0}, "at least 1"),
        ({"learning_rate": 0.0}, "above 0"),
        ({"clip_norm": 0.0}, r"`clip_norm` must be above 0.*very large value.*=0\.0"),
        ({"clip_norm": math.nan}, "`clip_norm` must be above 0"),
        ({"weight_decay": -0.01}, "`weight_decay` must be a finite number of at least 0"),
    ],
)
def test_hyperparameters_out_of_range(change, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**change)


@pytest.mark.parametrize("option", ["steps_per_loop", "checkpoint_every", "validate_every", "keep"])
def test_steps_below_one_are_refused_before_the_work(tmp_path, option):
    with pytest.raises(ValueError, match=rf"`{option}` must be at least 1\..* Received: {option}=0"):
        pretrain(tmp_path / "none", tmp_path / "run", **{option: 0})


def test_other_options_are_refused_before_the_work(tmp_path):
    with pytest.raises(ValueError, match=r"`keep_every_hours` must be a finite number of at least 0\. Received: .*-1"):
        pretrain(tmp_path / "none", tmp_path / "run", keep_every_hours=-1)
    with pytest.raises(TypeError, match="step_per_loop"):
        pretrain(tmp_path / "none", tmp_path / "run", step_per_loop=3)


@pytest.mark.long
def test_a_finished_run_is_a_source(folder, tmp_path):
    model = run(folder, tmp_path / "run", validation=folder / "16", validate_every=10, checkpoint_every=10)
    shutil.rmtree(tmp_path / "run" / "checkpoints")  # which are large
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    again = run(folder, tmp_path / "run", validation=folder / "16")  # is finished
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()} == before
    assert again.bert.config == model.bert.config
    for loaded in (keras_bert.Pretrainer.load(tmp_path / "run"), again):
        np.testing.assert_array_equal(weights(loaded), weights(model))
    assert keras_bert.load(tmp_path / "run").preprocessor.vocabulary == VOCABULARY
    assert (model.bert.config.hidden_dropout_prob, model.bert.config.attention_probs_dropout_prob) == (0.2, 0.2)
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if "validation_masked_lm_loss" in record] == [10, 12, 20]
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
    found = evaluate(tmp_path / "run", folder / "16")
    examples = ExampleReader.open(folder / "16")
    assert found.examples == len(examples)
    assert len(examples) % 32
    assert found.masked_lm_perplexity < len(VOCABULARY) * 1.2
    batches = examples.batches(32, epochs=1, fill=True)
    answers = [y["mlm_logits"][weight["mlm_logits"] > 0] for _, y, weight in batches]
    piece, count = Counter(np.concatenate(answers).tolist()).most_common(1)[0]
    assert found.most_frequent_piece == VOCABULARY.token(piece)
    assert found.most_frequent_accuracy == pytest.approx(count / sum(map(len, answers)))
    assert 0.3 < found.next_sentence_accuracy < 0.9


@pytest.mark.usefixtures("eager")
def test_known_pieces_keep_their_vectors_and_new_ones_are_random(folder, tmp_path):
    """And the pooling of a sentence-transformers model stays."""
    more = keras_bert.Vocabulary([*reversed(VOCABULARY.tokens[5:]), *VOCABULARY.tokens[:5], "new"])
    _write(["w1 new .\nw2 w3 .\nnew w4 ."] * 20, tmp_path / "more", more, 12)
    pooled = shutil.copytree(folder / "source", tmp_path / "pooled")
    our_folder.write_pooling(Pooling("cls", normalize=True), pooled)
    source = keras_bert.load(pooled)
    recipe = dataclasses.replace(RECIPE, steps=1, learning_rate=1e-9)
    model = pretrain(tmp_path / "more", tmp_path / "run", recipe=recipe, source=pooled, strategy="one")
    assert keras_bert.load(tmp_path / "run").pooling == source.pooling == Pooling("cls", normalize=True)
    ours, theirs = (np.asarray(bert.word_embeddings.embeddings) for bert in (model.bert, source))
    np.testing.assert_allclose(ours[more["w7"]], theirs[VOCABULARY["w7"]], atol=1e-6)
    assert ours.shape == (len(VOCABULARY) + 1, 8)
    assert 0 < np.abs(ours[more["new"]]).max() < 0.5


def test_a_directory_takes_one_run_and_one_process(folder, tmp_path):
    output = tmp_path / "run"
    second = run_directory(str(output), {"steps": 5})
    with (
        run_directory(str(output), {"steps": 5}),
        pytest.raises(RuntimeError, match="run is in use by another"),
    ):
        second.__enter__()
    (output / our_folder.WEIGHTS).touch()
    with pytest.raises(FileExistsError, match=r"steps=20 \(was 5\)"):
        run(folder, output)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("chapter 1")
    with pytest.raises(FileExistsError, match=r"is not empty.*thesis\.tex"):
        run(folder, tmp_path / "thesis")


def test_another_number_of_steps_is_recorded_when_the_checkpoint_was_read(tmp_path):
    (tmp_path / "checkpoints" / "step_3").mkdir(parents=True)
    (tmp_path / our_folder.WEIGHTS).touch()
    (tmp_path / "run.json").write_text('{"steps": 3}')
    with pytest.raises(ValueError, match="another backend"), run_directory(str(tmp_path), {"steps": 5}):
        raise ValueError("another backend")
    assert (tmp_path / our_folder.WEIGHTS).exists()
    assert json.loads((tmp_path / "run.json").read_text()) == {"steps": 3}
    with run_directory(str(tmp_path), {"steps": 5}) as record:
        record()
        record()
    assert not (tmp_path / our_folder.WEIGHTS).exists()
    assert json.loads((tmp_path / "run.json").read_text()) == {"steps": 5}


def test_a_remote_finished_model_is_read(folder):
    pretrainer = keras_bert.Pretrainer(keras_bert.load(folder / "source"))
    write_model(pretrainer, "ram://finished/run")
    with finished_model("ram://finished/run") as checkpoint:
        head = checkpoint.heads["mlm"].weights["mlm_dense/kernel"].read()
    np.testing.assert_array_equal(head, pretrainer.get_layer("mlm_dense").kernel)


def test_evaluation_without_pairs(folder, tmp_path):
    options = {"vocabulary": VOCABULARY, "seq_length": 12, "sentences": "line", "workers": 1, "nsp": False}
    write_examples(iter(["w1 w2 .\nw3 w4 .\nw5 w6 .\nw7 ."] * 30), tmp_path / "data", **options)
    pretrainer = keras_bert.Pretrainer.load(_pretrainer_folder(folder, tmp_path / "both"), nsp=False)
    our_folder.write_checkpoint(Checkpoint.of(pretrainer), tmp_path / "mlm")
    both, mlm = (evaluate(tmp_path / name, tmp_path / "data") for name in ("both", "mlm"))
    assert both == mlm
    assert both.next_sentence_accuracy is None


def test_data_that_does_not_fit(folder, tmp_path, caplog):
    texts = ["w1 w2 .\nw3 w4 .\nw5 w6 .\nw7 ."] * 30
    _write(texts, tmp_path / "long", VOCABULARY, 32)
    with pytest.raises(ValueError, match="not exceed the model's 16 positions"):
        pretrain(tmp_path / "long", tmp_path / "a", recipe=RECIPE, source=folder / "source", strategy="one")
    for name, data, rest in (("later", ["12", "long"], {}), ("held", ["12"], {"validation": tmp_path / "long"})):
        data = [tmp_path / one if one == "long" else folder / one for one in data]
        with pytest.raises(ValueError, match="not exceed the model's 16 positions"):
            pretrain(data, tmp_path / name, recipe=RECIPE, source=folder / "source", strategy="one", **rest)
        assert not (tmp_path / name / "metrics.jsonl").exists()  # before the first step
    other = keras_bert.Vocabulary([*VOCABULARY.tokens, "more"])
    _write(texts, tmp_path / "other", other, 12)
    with pytest.raises(ValueError, match="differ in `vocabulary`"):
        pretrain([folder / "12", tmp_path / "other"], tmp_path / "b", recipe=RECIPE, strategy="one")
    pretrainer = _pretrainer_folder(folder, tmp_path / "without a vocabulary")
    (pretrainer / "vocab.txt").unlink()
    with pytest.raises(ValueError, match=r"more pieces than the model.*Received: 47 pieces, 46 vectors"):
        evaluate(pretrainer, tmp_path / "other")
    with pytest.raises(ValueError, match="one for each of the 2 phases"):
        pretrain([folder / "12"] * 3, tmp_path / "c", recipe=RECIPE, strategy="one")
    with pytest.raises(ValueError, match=r"not that of the examples in .*other\."):
        evaluate(_pretrainer_folder(folder, tmp_path / "pretrainer"), tmp_path / "other")
    other_rules = {"vocabulary": VOCABULARY, "seq_length": 12, "sentences": "line", "workers": 1, "lowercase": False}
    write_examples(iter(texts), tmp_path / "cased", **other_rules)
    with pytest.raises(ValueError, match="other text rules"):
        evaluate(tmp_path / "pretrainer", tmp_path / "cased")
    read_resized(folder / "source", ExampleReader.open(tmp_path / "cased"))
    assert "written with other text rules than those of" in caplog.text


def test_answers_that_the_model_does_not_know():
    ids, answers, weight = np.array([[2, 4, 3]]), np.array([[9]]), np.ones((1, 1))
    batch = {"input_word_ids": ids}, {"mlm_logits": answers}, {"mlm_logits": weight}
    batches = SimpleNamespace(as_numpy_iterator=lambda: [batch])
    assert evaluation._count_answers(batches, 10, "data").tolist() == [0] * 9 + [1]
    with pytest.raises(ValueError, match=r"examples in data have ids .*Received: the id 9, 9 vectors"):
        evaluation._count_answers(batches, 9, "data")


def test_an_unfinished_run_is_refused_as_a_source(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="same keras-bert pretrain"):
        keras_bert.load(tmp_path)


@pytest.mark.usefixtures("eager")
def test_a_run_without_a_checkpoint_leaves_its_directory_as_it_was(folder, tmp_path):
    with pytest.raises(ValueError, match="neither a known name nor a path"):
        pretrain(folder / "12", tmp_path / "run", recipe=RECIPE, source="mistyped", strategy="one")
    assert not (tmp_path / "run").exists()
    with pytest.raises(FloatingPointError, match=r"(?s)not finite.*lower the learning rate"):
        run(folder, tmp_path / "run", dataclasses.replace(RECIPE, learning_rate=1e30))
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"source": "of a run that was killed at once"}')
    with run_directory(str(tmp_path / "run"), {"source": "right"}):
        assert json.loads((tmp_path / "run" / "run.json").read_text()) == {"source": "right"}


@pytest.mark.usefixtures("eager")
def test_a_picture_that_fails(folder, tmp_path, monkeypatch, caplog):
    """It costs neither the model nor the exit code after a signal."""

    def fail(*_):
        assert (tmp_path / "run" / our_folder.WEIGHTS).exists()
        raise ValueError("no fonts")

    monkeypatch.setattr(run_directory_module, "draw_curves", fail)
    run(folder, tmp_path / "run", dataclasses.replace(RECIPE, steps=1), data=["12"])
    said = "Could not draw .*run/curve.png. The model and .* are not affected. Received: ValueError: no fonts"
    assert re.fullmatch(said, caplog.messages[-1])
    assert keras_bert.load(tmp_path / "run").config.hidden_size == 8
    settings = json.loads((tmp_path / "run" / "run.json").read_text())
    with pytest.raises(SystemExit, match="143"), run_directory(str(tmp_path / "run"), settings):
        raise SystemExit(143)


def _pretrainer_folder(folder, path):
    our_folder.write_checkpoint(Checkpoint.of(keras_bert.Pretrainer(keras_bert.load(folder / "source"))), path)
    return path


@pytest.mark.long
@pytest.mark.usefixtures("eager")
def test_a_run_is_shortened_and_extended(folder, tmp_path, monkeypatch, caplog):
    output = tmp_path / "run"

    def to(steps):
        run(folder, output, dataclasses.replace(RECIPE, steps=steps), data=["12"], steps_per_loop=1)

    with monkeypatch.context() as patch:
        patch.setattr(
            MetricsLog, "__call__", lambda self, step, *_, **__: step == 4 and signal.raise_signal(signal.SIGINT)
        )
        with pytest.raises(KeyboardInterrupt):
            to(20)
    with pytest.raises(FileExistsError, match=r"is at step 4 already.*steps=3 \(was 20\)"):
        to(3)
    to(6)
    (output / "curve.png").unlink()
    with monkeypatch.context() as patch:
        write = MetricsLog.__call__

        def interrupted(self, step, *values, **options):
            write(self, step, *values, **options)
            if step == 8:
                signal.raise_signal(signal.SIGINT)

        patch.setattr(MetricsLog, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            to(10)
    assert (output / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert not (output / our_folder.WEIGHTS).exists()
    to(10)
    assert "the run of 20 steps now has 6 steps. From step 4 on" in caplog.text
    assert "the run of 6 steps now has 10 steps. From step 6 on" in caplog.text
    rates = {record["step"]: record["learning_rate"] for record in read_metrics(f"{output}/metrics.jsonl")}
    steps_of = {step: 6 if step <= 6 else 10 for step in rates}
    assert list(rates) == [5, 6, 7, 8, 9, 10]  # the first four were not logged
    for step, rate in rates.items():  # of the last of the steps that were done
        schedule = WarmupLinearDecay(1e-2, steps=steps_of[step], warmup_steps=round(0.1 * steps_of[step]))
        assert rate == pytest.approx(float(schedule(step - 1)), rel=1e-6)
    shutil.rmtree(output / "checkpoints")
    with pytest.raises(FileExistsError, match="finished run without checkpoints"):
        to(12)


@pytest.mark.long
def test_the_commands(folder, tmp_path, caplog, capsys, monkeypatch):
    def command(*arguments):
        return CliRunner().invoke(cli.app, list(map(str, arguments)), catch_exceptions=False)

    caplog.set_level("INFO", logger="keras_bert")
    options = ["--from", folder / "source", "--steps", 4, "--batch-size", 8, "--strategy", "one"]
    own_data = ["pretrain", "--data", folder / "12", "--output", tmp_path / "run", *options]
    assert command(*own_data).exit_code == 0
    assert "step 4 of 4, masked_lm_loss" in caplog.text
    with pytest.raises(FileExistsError, match=r"seed=1 \(was 0\)"):
        command(*own_data, "--seed", 1)
    found = command("evaluate", tmp_path / "run", "--data", folder / "16", "--json").stdout
    assert set(json.loads(found)) >= {"masked_lm_accuracy", "masked_lm_perplexity", "next_sentence_accuracy"}

    shutil.copytree(folder / "12", tmp_path / "damaged")
    shard = tmp_path / "damaged" / "examples-00000.tfrecord"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 255
    shard.write_bytes(data)
    damaged = ["pretrain", "--data", tmp_path / "damaged", *options]
    assert command(*damaged, "--output", tmp_path / "skipped", "--damaged", "skip").exit_code == 0
    assert f"{shard} is damaged" in caplog.text
    line = ["keras-bert", *damaged, "--output", tmp_path / "stopped"]
    monkeypatch.setattr(sys, "argv", [*map(str, line)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"keras-bert: The examples in {shard} are damaged or incomplete.")
