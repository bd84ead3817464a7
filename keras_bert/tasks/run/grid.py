"""Runs of several settings, the best of which is kept: the grid of Devlin et al. 2018, appendix A.3, or another.

A tuner is not used, because a finished run is its own record: the same command skips it. For a search in which not all
combinations are tried, docs/training.md shows KerasTuner and Optuna.
"""

import contextlib
import itertools
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from keras_bert.storage import check_new_folder
from keras_bert.tasks.run.finetune import finetune
from keras_bert.tasks.run.model_card import write_card
from keras_bert.tasks.run.run_folder import (
    MODEL,
    SETTINGS_FILE,
    check_no_run,
    metrics_of,
    trial_name,
    working_folder,
    write_metrics,
)
from keras_bert.tasks.run.said_once import SaidOnce
from keras_bert.tasks.run.searched import GRID, Grid, combinations
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.tasks.run.training_rows import training_rows
from keras_bert.weights.load import read_source

logger = logging.getLogger("keras_bert")

COMPARED = 4  # runs before the first that is pruned


def finetune_grid(
    settings: FinetuneSettings, output: Path, grid: Grid = GRID, *, prune: bool = False
) -> dict[str, Any]:
    """Train once for each combination of the grid, and keep the best run as `output`; otherwise as `finetune`.

    Repeating the call skips runs that are complete or failed. Only the best run keeps its weights.

    prune: end a run after an epoch in which its best score is below the median of the earlier runs with as many epochs,
        if there are four of them (the median stopping rule of Golovin et al. 2017).
    """
    output = check_new_folder(output)
    folder = working_folder(output)
    best, best_score, runs = folder, float("-inf"), list[dict[str, Any]]()
    for trial in each_run(settings, folder, grid, prune=prune):
        runs.append(trial.values | trial.outcome)
        if trial.score is not None and trial.score > best_score:
            (best / MODEL).unlink(missing_ok=True)
            best, best_score = trial.folder, trial.score
        else:
            (trial.folder / MODEL).unlink(missing_ok=True)
    return finish(best, output, {"grid": runs})


class Trial(NamedTuple):
    """One combination of settings, the folder of its run, and what it measured."""

    folder: Path
    values: dict[str, Any]
    metrics: dict[str, Any]

    @property
    def scores(self) -> dict[str, float]:
        """The scores on the validation rows, after the calibration if there was one."""
        return self.metrics.get("calibration", self.metrics)["valid"]

    @property
    def score(self) -> float | None:
        """The score by which a run is chosen; None if the run failed."""
        return None if "failed" in self.metrics else self.scores[self.metrics["chosen_by"]]

    @property
    def outcome(self) -> dict[str, Any]:
        """What the table of a search says of this run, beside its values."""
        pruned = {"pruned_after": len(self.metrics["epochs"])} if "pruned" in self.metrics else {}
        return {"score": self.score, **pruned}


def each_run(settings: FinetuneSettings, folder: Path, grid: Grid, *, prune: bool = False) -> Iterator[Trial]:
    """Train each combination in a folder of its own, unless it is there.

    A run whose loss is not finite has no score. If all runs fail, that is an error.
    """
    check_no_run(folder, grid)
    tried = combinations(settings, grid)
    _check(settings, grid, [one for _, one in tried])
    failed: list[Path] = []
    once = SaidOnce()
    histories: dict[Any, list[list[float]]] = {}  # the best score so far in each epoch, by what is as long an epoch
    for number, (values, one) in enumerate(tried, 1):
        run = folder / trial_name(values)
        logger.info("Run %d of %d: %s", number, len(tried), run.name)
        earlier = histories.setdefault((one.epochs, one.steps and one.rows_per_batch), [])
        floors = _medians(earlier) if prune else []
        try:
            with once.while_running():
                metrics = _run(one, run, floors)
        except FloatingPointError as error:
            logger.warning(
                "Run %d of %d failed, because its loss is not a finite number: %s. The other runs continue.",
                number, len(tried), run.name,
            )  # fmt: skip
            metrics = _record_failure(one, run, error)
        except BaseException as error:
            with contextlib.suppress(OSError):
                folder.rmdir()  # unless a run left something there
            if number > 1 and isinstance(error, Exception):
                logger.error(
                    "Run %d of %d could not be trained: %s. The same command without it keeps the complete runs.",
                    number, len(tried), run.name,
                )  # fmt: skip
            raise
        if "failed" in metrics:
            failed.append(run)
        else:
            scores = (epoch["scores"][metrics["chosen_by"]] for epoch in metrics["epochs"])
            earlier.append(list(itertools.accumulate(scores, max)))
        yield Trial(run, values, metrics)
    if len(failed) == len(tried):
        for run in failed:
            shutil.rmtree(run)
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise FloatingPointError(
            f"All runs in {folder} had a loss that is not a finite number. Lower the learning rate, or use float32 or "
            f"mixed_bfloat16. Received: {', '.join(run.name for run in failed)}"
        )


def _check(settings: FinetuneSettings, grid: Grid, chosen: list[FinetuneSettings]) -> None:
    """Refuse values that do not fit the models or the training rows, before the first run."""
    if {"model", "seq_length", "freeze", "lora"} & {*grid} and settings.vocab is None:
        configs = {model: read_source(model).config for model in {one.model for one in chosen}}
        for one in chosen:
            one.check_model(configs[one.model])
    if "loss" in grid:
        rows = training_rows(settings)
        for one in chosen:
            one.task.check_run(rows, one)


def finish(best: Path, output: Path, more: dict[str, Any]) -> dict[str, Any]:
    """Make the folder of a run, with more in its metrics, the output, and delete the others."""
    if not (best / MODEL).exists():
        raise ValueError(
            f"{best} is the best run, but has no model: in an earlier search, another run was better, and only that "
            "model was kept. Repeat the earlier search, or delete this folder, so that the run is trained again. "
            f"Received: no {MODEL}"
        )
    folder, metrics = best.parent, metrics_of(best) | more
    write_metrics(best, metrics)
    write_card(best / "README.md", FinetuneSettings.from_json(best / SETTINGS_FILE), metrics)
    if output.exists():
        output.rmdir()
    best.rename(output)
    shutil.rmtree(folder)
    return metrics


def _run(settings: FinetuneSettings, run: Path, floors: list[float]) -> dict[str, Any]:
    if not run.exists():
        return finetune(settings, run, floors=floors)
    settings.check_same(run / SETTINGS_FILE)
    return metrics_of(run)


def _record_failure(settings: FinetuneSettings, run: Path, error: Exception) -> dict[str, Any]:
    """Leave the folder of a run that failed, so that it is not tried again, and return its metrics."""
    metrics, temporary = {"failed": str(error)}, run.with_name(run.name + ".failed")
    shutil.rmtree(temporary, ignore_errors=True)  # of a call that was interrupted
    temporary.mkdir(parents=True)
    settings.to_json(temporary / SETTINGS_FILE)
    write_metrics(temporary, metrics)
    temporary.rename(run)
    shutil.rmtree(working_folder(run), ignore_errors=True)
    return metrics


def _medians(histories: list[list[float]]) -> list[float]:
    """The median in each epoch that enough runs have reached."""
    of_epochs = ([scores for scores in column if scores is not None] for column in itertools.zip_longest(*histories))
    return [median(column) for column in itertools.takewhile(lambda column: len(column) >= COMPARED, of_epochs)]
