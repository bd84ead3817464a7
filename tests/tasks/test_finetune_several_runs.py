"""`keras-bert finetune` that trains more than once: seeds, the average of weights, searches, runs that fail."""

import logging
import shutil

import keras
import numpy as np
import pytest

from keras_bert.progress import EACH_TIME
from keras_bert.storage import write_json
from keras_bert.tasks.run import grid
from keras_bert.tasks.run.finetune import finetune
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.grid import _medians, each_run, finetune_grid
from keras_bert.tasks.run.searched import grid_of
from keras_bert.tasks.run.seeds import _averaged, average_weights, finetune_seeds
from keras_bert.tasks.run.settings import FinetuneSettings
from tests.tasks.runs import record, train


@pytest.mark.long
def test_seeds_and_the_average_of_their_weights(bert, files, tmp_path):
    said = train(bert, "classify", *files, tmp_path / "run", "--epochs", 1, "--seeds", 2, "--seed", 3)
    metrics = record(tmp_path / "run")
    assert [one["seed"] for one in metrics["seeds"]] == [3, 4]
    scores = [one["score"] for one in metrics["seeds"]]
    assert metrics["valid"]["accuracy"] == max(scores)
    assert metrics["spread"]["accuracy"] == pytest.approx([np.mean(scores), np.std(scores, ddof=1)])
    assert f"accuracy of 2 seeds\t{np.mean(scores):.4f} +- {np.std(scores, ddof=1):.4f}" in said
    assert "## The seeds" in (tmp_path / "run/README.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

    said = train(bert, "classify", *files, tmp_path / "mean", "--epochs", 1, "--seeds", 2, "--average")
    metrics = record(tmp_path / "mean")
    assert metrics["averaged"] == 2
    assert FinishedTask.load(tmp_path / "mean").evaluate(files[1]) == pytest.approx(metrics["valid"])
    assert "the average of the weights of 2 runs" in (tmp_path / "mean/README.md").read_text()


@pytest.mark.parametrize(
    ("options", "rule"), [({"lora": 2}, "Runs with LoRA cannot be averaged"), ({"calibrate": True}, "Leave out --c")]
)
def test_what_has_no_average(files, tmp_path, options, rule):
    settings = FinetuneSettings("classify", *map(str, files), **options)
    with pytest.raises(ValueError, match=f"{rule}.* Received: average=True"):
        finetune_seeds(settings, tmp_path / "run", 2, average=True)


def test_the_metrics_of_an_average(finished, files, caplog):
    """They are not those of an epoch, and the log compares them with the best run's."""
    caplog.set_level("INFO", "keras_bert")
    folder = _averaged([finished[0]] * 2, finished[0], FinetuneSettings.from_json(finished[0] / "settings.json"))
    metrics = record(folder)
    assert (metrics["averaged"], metrics["valid"]) == (2, pytest.approx(record(finished[0])["valid"]))
    assert "best_epoch" not in metrics
    score = metrics["valid"]["accuracy"]
    assert (
        f"The score 'accuracy' is {score:.4f} for the averaged weights and {score:.4f} for the best run. "
        "The average is kept."
    ) in caplog.text
    shutil.rmtree(folder)


def test_average_weights(finished, tmp_path):
    path = finished[0] / "model.keras"
    model = keras.models.load_model(path)
    for weight in model.weights:
        weight.assign(weight + 2)
    model.save(tmp_path / "other.keras")
    for weight, mean in zip(model.weights, average_weights([path, tmp_path / "other.keras"]).weights, strict=True):
        np.testing.assert_allclose(np.asarray(weight) - 1, np.asarray(mean), atol=1e-6)


@pytest.mark.long
def test_a_search(bert, files, tmp_path):
    options = ("--epochs", 1, "--search", "layer_decay=0.5,1", "--search", "learning-rate=1e-5,3e-2", "--prune")
    said = train(bert, "classify", *files, tmp_path / "run", *options)
    metrics = record(tmp_path / "run")
    kept = max(metrics["grid"], key=lambda done: done["score"])
    for done in metrics["grid"]:
        line = f"layer_decay={done['layer_decay']}, learning_rate={done['learning_rate']}\t{done['score']:.4f}\n"
        assert line in said
    assert f"The best of 4 runs: layer_decay={kept['layer_decay']}, learning_rate={kept['learning_rate']}\n" in said
    assert [(done["layer_decay"], done["learning_rate"]) for done in metrics["grid"]] == [
        (0.5, 1e-5), (0.5, 3e-2), (1, 1e-5), (1, 3e-2)
    ]  # fmt: skip
    assert metrics["valid"]["accuracy"] == max(done["score"] for done in metrics["grid"])
    assert FinishedTask.load(tmp_path / "run").evaluate(files[1]) == pytest.approx(metrics["valid"])


@pytest.mark.long
def test_a_search_that_prunes(bert, files, tmp_path, caplog):
    """The fifth run learns nothing, and ends after its first epoch."""
    caplog.set_level("INFO", "keras_bert")
    rates = "--search", "learning-rate=0.02,0.021,0.022,0.023,1e-9"
    said = train(bert, "classify", *files, tmp_path / "run", "--epochs", 2, *rates, "--prune")
    assert caplog.text.count("Epoch 2: ") == 4
    assert caplog.text.count("because its best score is below the median of the earlier runs; the best is epoch") == 1
    *others, pruned = record(tmp_path / "run")["grid"]
    assert (pruned["learning_rate"], pruned["pruned_after"]) == (1e-9, 1)
    assert not any("pruned_after" in other for other in others)
    ending = f"{pruned['score']:.4f}, ended after epoch 1 by --prune"
    assert f"learning_rate=1e-09\t{ending}\n" in said
    assert f"| 1e-09 | {ending} |" in (tmp_path / "run/README.md").read_text()


def test_what_a_search_refuses():
    for words, said in (
        (["colour=red"], "The search .*NAME is one of batch_size, .*freeze_blocks, .* Received: "),
        (["layer_decay"], "The search of layer_decay has no values.* Received: 'layer_decay'"),
        (["epochs="], "The search of epochs has no values.* Received: 'epochs='"),
        (["epochs=1", "epochs=2"], "epochs is in two searches.* Received: 'epochs=2'"),
    ):
        with pytest.raises(ValueError, match=said):
            grid_of(words)
    for word, value in (("lr=abc", "'abc' of learning_rate"), ("ema=0.9,nan", "'nan' of ema")):
        with pytest.raises(ValueError, match=f"The value {value} in --search is not a number.* Received: '{word}'"):
            grid_of([word])
    with pytest.raises(ValueError, match=r"The value True of freeze in --search is not a whole number.*'freeze=true,"):
        grid_of(["freeze=true,false"])
    with pytest.raises(ValueError, match=r"learning_rate cannot be 'none'\. .*lora"):
        grid_of(["lr=none"])
    for values, value in (
        ('{"yes":2}', '{"yes":2}'),
        ("much", "much"),
        ("yes=2,no=", "no="),
        ("3", "3"),
        ("yes=nan", "yes=nan"),
        ("no=-1", "no=-1"),
    ):
        with pytest.raises(
            ValueError, match=rf"The value '?{value}'? of class_weight in --search is not .* Received: '"
        ):
            grid_of([f"class_weight={values}"])


@pytest.mark.long
def test_a_search_of_the_weight_of_a_label(bert, files, tmp_path, caplog):
    options = ("--epochs", 1, "--search", "class_weight=none,balanced,yes=2,yes=0")
    options += ("--freeze-blocks", 0, "--search", "freeze_blocks=1")
    said = train(bert, "classify", *files, tmp_path / "run", *options)
    assert "freeze=0 is not used, because the search tries other values." in caplog.text
    weights = [None, "balanced", {"yes": 2.0}, {"yes": 0.0}]
    assert [done["class_weight"] for done in record(tmp_path / "run")["grid"]] == weights
    assert "\nclass_weight=yes=2.0, freeze=1\t" in said
    assert "| yes 2 | 1 | " in (tmp_path / "run/README.md").read_text()


def test_a_search_of_models_for_random_weights(files, tmp_path):
    settings = FinetuneSettings("classify", *map(str, files), size="tiny", vocab="vocab.txt")
    with pytest.raises(ValueError, match=r"names models, but with --size .* Received: model=base,minilm"):
        finetune_grid(settings, tmp_path / "run", {"model": ("base", "minilm")})
    with pytest.raises(ValueError, match=r"neither a known name nor a path that exists\. Close names: base.*'bsae'"):
        finetune_grid(FinetuneSettings("classify", *map(str, files)), tmp_path / "run", {"model": ("base", "bsae")})
    assert not (tmp_path / "run.partial").exists()


@pytest.mark.parametrize("grid", [{"freeze": (0, 7)}, {"seq_length": (8, 65)}, {"lora": (1, 1000)}])
def test_a_search_of_what_the_model_cannot_have(bert, files, tmp_path, grid):
    """It is refused before the first run."""
    settings = FinetuneSettings("classify", *map(str, files), model=str(bert))
    with pytest.raises(ValueError, match=r"must (be at most|not exceed the model's) "):
        finetune_grid(settings, tmp_path / "run", grid)
    assert not (tmp_path / "run.partial").exists()


def test_a_search_of_epochs_in_so_many_steps(files, tmp_path):
    settings = FinetuneSettings("classify", *map(str, files), steps=9)
    with pytest.raises(ValueError, match=r"names epochs, but with --steps .* Received: epochs=2,3, steps=9"):
        finetune_grid(settings, tmp_path / "run", {"epochs": (2, 3)})


def test_a_search_and_a_single_run_do_not_share_a_folder(files, tmp_path):
    settings, folder = FinetuneSettings("classify", *map(str, files)), tmp_path / "run.partial"
    settings.to_json(new_folder(folder / "seed=1") / "settings.json")
    with pytest.raises(ValueError, match=r"has the runs of a search .* Received: 1 run, such as seed=1"):
        finetune(settings, tmp_path / "run")
    (folder / "metrics.json").write_text("{}")
    with pytest.raises(ValueError, match=r"has a single run that was interrupted.* Received: seed to try"):
        finetune_seeds(settings, tmp_path / "run", 2)
    assert (folder / "seed=1" / "settings.json").exists()


def new_folder(path):
    path.mkdir(parents=True)
    return path


def test_a_later_run_that_cannot_be_trained(files, tmp_path, monkeypatch, caplog):
    def run(settings, *_):
        if settings.accumulate == 500:
            raise ValueError("accumulate is 500")
        return {"chosen_by": "f1", "epochs": [{"scores": {"f1": 0.5}}]}

    monkeypatch.setattr(grid, "_run", run)
    settings = FinetuneSettings("classify", *map(str, files))
    with pytest.raises(ValueError, match="accumulate is 500"):
        list(each_run(settings, tmp_path, {"accumulate": (1, 500)}))
    assert caplog.messages == [
        "Run 2 of 2 could not be trained: accumulate=500. The same command without it keeps the complete runs."
    ]


def test_a_search_knows_the_names_of_the_command_line():
    assert grid_of(["lr=1e-5", "freeze-blocks=none,1"]) == {"learning_rate": (1e-5,), "freeze": (None, 1)}


def test_runs_have_folders_of_their_own_and_warn_once(files, tmp_path, monkeypatch, caplog):
    def run(*_):
        logger.warning("%d rows are cut", 2)
        logger.warning("Epoch 1", extra=EACH_TIME)
        return {"chosen_by": "f1", "epochs": [{"scores": {"f1": 0.5}}]}

    logger = logging.getLogger("keras_bert")
    monkeypatch.setattr(grid, "_run", run)
    seeds = (20261121, 20261122, 20261123)
    runs = each_run(FinetuneSettings("classify", *map(str, files)), tmp_path, {"seed": seeds})
    assert [run.name for run, _, _ in runs] == ["seed=20261121", "seed=20261122", "seed=20261123"]
    assert caplog.messages == ["2 rows are cut", "Epoch 1", "Epoch 1", "Epoch 1"]
    logger.warning("%d rows are cut", 2)
    assert len(caplog.messages) == 5


@pytest.fixture
def diverges(finished, monkeypatch):
    """A finetune that fails at a high learning rate and at the seed 1, and otherwise copies a finished run."""
    tried = []

    def finetune(settings, run, floors):
        tried.append(run.name)
        if settings.learning_rate == 1e30 or settings.seed == 1:
            run.with_name(run.name + ".partial").mkdir(parents=True)
            raise FloatingPointError("The loss of epoch 2 is not a finite number.")
        shutil.copytree(finished[0], run)
        settings.to_json(run / "settings.json")
        return record(run)

    monkeypatch.setattr(grid, "finetune", finetune)
    return tried


def test_a_run_of_a_grid_that_fails(files, tmp_path, monkeypatch, caplog, diverges):
    settings, output = FinetuneSettings("classify", *map(str, files)), tmp_path / "run"
    values = {"learning_rate": (1e30, 1e-5)}
    with monkeypatch.context() as patch:
        patch.setattr(grid, "finish", lambda *_: pytest.fail("no power"))
        with pytest.raises(pytest.fail.Exception):
            finetune_grid(settings, output, values)
    assert len(caplog.messages) == 1
    assert "Run 1 of 2 failed, because its loss is not a finite number: learning_rate=1e+30. The" in caplog.text
    assert sorted(path.name for path in (tmp_path / "run.partial").iterdir()) == [
        "learning_rate=1e+30", "learning_rate=1e-05"
    ]  # fmt: skip
    metrics = finetune_grid(settings, output, values)
    assert len(diverges) == 2  # neither is repeated
    assert metrics["grid"] == [
        {"learning_rate": 1e30, "score": None},
        {"learning_rate": 1e-5, "score": metrics["valid"]["accuracy"]},
    ]
    assert (
        f" | {metrics['valid']['accuracy']:.4f} (kept) |\n| 1e+30 | failed |\n\n" in (output / "README.md").read_text()
    )
    assert (output / "model.keras").exists()


def test_the_best_run_has_lost_its_model_to_an_earlier_search(files, tmp_path, diverges):
    settings, output, values = FinetuneSettings("classify", *map(str, files)), tmp_path / "run", {"layer_decay": (0.5,)}
    (trial,) = each_run(settings, tmp_path / "run.partial", values)
    (trial.folder / "model.keras").unlink()
    with pytest.raises(
        ValueError, match=r"layer_decay=0.5 is the best run, but has no model.* Received: no model.keras"
    ):
        finetune_grid(settings, output, values)
    assert (trial.folder / "metrics.json").exists()
    shutil.rmtree(trial.folder)
    finetune_grid(settings, output, values)
    assert (output / "model.keras").exists()


def test_the_scores_of_seeds_are_those_after_the_calibration(files, tmp_path, diverges):
    settings = FinetuneSettings("classify", *map(str, files), seed=2)
    for trial in each_run(settings, tmp_path / "run.partial", {"seed": (2, 3)}):
        scores = trial.metrics["valid"] | {"calibration_error": trial.values["seed"] / 10}
        calibrated = {"set": {"temperature": 1.0}, "valid": scores}
        write_json(trial.folder / "metrics.json", trial.metrics | {"calibration": calibrated})
    metrics = finetune_seeds(settings, tmp_path / "run", 2)
    assert metrics["spread"]["calibration_error"][0] == pytest.approx(0.25)


def test_all_runs_of_a_grid_fail(files, tmp_path, diverges):
    settings = FinetuneSettings("classify", *map(str, files))
    message = r"All runs in .*run.partial had a loss that .* Received: learning_rate=1e\+30"
    with pytest.raises(FloatingPointError, match=message):
        finetune_grid(settings, tmp_path / "run", {"learning_rate": (1e30,)})
    assert not list(tmp_path.iterdir())


def test_a_seed_that_fails(files, tmp_path, diverges):
    settings = FinetuneSettings("classify", *map(str, files))
    metrics = finetune_seeds(settings, tmp_path / "three", 3)
    score = metrics["valid"]["accuracy"]
    assert [one["score"] for one in metrics["seeds"]] == [score, None, score]
    assert metrics["spread"]["accuracy"] == [score, 0]
    metrics = finetune_seeds(settings, tmp_path / "two", 2)
    assert metrics["spread"] == {}  # of one run


def test_a_run_is_pruned_below_the_median_of_four():
    assert _medians([[0.1, 0.5]] * 3) == []
    assert _medians([[0.1, 0.2], [0.2, 0.4], [0.3, 0.6], [0.4]]) == [0.25]
    assert _medians([[0.1, 0.2], [0.2, 0.4], [0.3, 0.6], [0.4, 0.4]]) == [0.25, 0.4]


@pytest.mark.long
def test_grid(bert, files, tmp_path, monkeypatch, caplog):
    from keras_bert.tasks.run import grid

    for name, values in (("batch_size", (16,)), ("learning_rate", (1e-5, 3e-2)), ("epochs", (1,))):
        monkeypatch.setitem(grid.GRID, name, values)
    train(bert, "classify", *files, tmp_path / "run", "--grid")
    assert "learning_rate=0.03 is not used, because the search tries other values." in caplog.text
    metrics = record(tmp_path / "run")
    assert [(done["batch_size"], done["learning_rate"]) for done in metrics["grid"]] == [(16, 1e-5), (16, 3e-2)]
    assert metrics["valid"]["accuracy"] == max(done["score"] for done in metrics["grid"])
    assert FinishedTask.load(tmp_path / "run").evaluate(files[1]) == pytest.approx(metrics["valid"])
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert "## The grid" in (tmp_path / "run/README.md").read_text()


def test_the_grid_is_the_paper_s():
    from keras_bert.tasks.run.searched import GRID

    assert GRID == {"batch_size": (16, 32), "learning_rate": (5e-5, 3e-5, 2e-5), "epochs": (2, 3, 4)}
