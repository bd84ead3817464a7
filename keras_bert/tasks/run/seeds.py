"""Runs with several seeds: their mean and spread, and the best of them or the average of their weights."""

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.storage import check_new_folder
from keras_bert.tasks.run.finetune import read_files
from keras_bert.tasks.run.finished_task import FinishedTask
from keras_bert.tasks.run.grid import each_run, finish
from keras_bert.tasks.run.run_folder import MODEL, metrics_of, working_folder, write_metrics
from keras_bert.tasks.run.searched import seeded
from keras_bert.tasks.run.settings import FinetuneSettings

logger = logging.getLogger("keras_bert")


def finetune_seeds(settings: FinetuneSettings, output: Path, count: int, *, average: bool = False) -> dict[str, Any]:
    """Train with `count` seeds, the first being that of the settings, and keep the best run as `output`.

    The metrics then have "seeds", with a score for each, and "spread": the mean and the standard deviation of each
    score, without those of runs that failed. Repeating the call skips runs that are complete or failed.

    average: keep the average of the weights of all runs (Wortsman et al. 2022). They then start from the same head,
        and the seeds decide only the order of the rows. The average is kept even if the best run scores higher; the
        log has both scores.
    """
    output = check_new_folder(output)
    settings, grid = seeded(settings, count, average)  # an error before the first run
    tried = list(each_run(settings, working_folder(output), grid))
    runs = [trial.values | trial.outcome for trial in tried]
    done = [trial for trial in tried if trial.score is not None]
    valid = [trial.scores for trial in done]
    by_name = {name: [one[name] for one in valid] for name in valid[0]}
    spread = {name: [mean(scores), stdev(scores)] for name, scores in by_name.items() if len(done) > 1}
    best = max(done, key=lambda trial: trial.score or 0.0).folder
    if average:
        best = _averaged([trial.folder for trial in done], best, settings)
    return finish(best, output, {"seeds": runs, "spread": spread})


def _averaged(runs: Sequence[Path], best: Path, settings: FinetuneSettings) -> Path:
    """A copy of the best run with the average of the weights of all, which is not that of one epoch."""
    folder = best.with_name("average")
    shutil.rmtree(folder, ignore_errors=True)  # of a call that was interrupted
    shutil.copytree(best, folder)
    average_weights([run / MODEL for run in runs]).save(folder / MODEL)
    metrics = metrics_of(folder)
    _, rows = read_files(settings)
    valid, details = FinishedTask.load(folder).report_rows(rows, batch_size=settings.rows_per_batch)
    del metrics["best_epoch"]
    write_metrics(folder, metrics | details | {"valid": valid, "averaged": len(runs)})
    name = metrics["chosen_by"]
    score, best_score = valid[name], metrics["valid"][name]
    logger.log(
        logging.WARNING if score < best_score else logging.INFO,
        "The score %r is %.4f for the averaged weights and %.4f for the best run. The average is kept.",
        name, score, best_score,
    )  # fmt: skip
    return folder


def average_weights(paths: Sequence[Path]) -> Any:
    """The first of some saved models that have the same layers, with the average of the weights of all."""
    model, *others = (keras.models.load_model(path, compile=False) for path in paths)
    sums = [ops.convert_to_numpy(weight).astype("float64") for weight in model.weights]
    for other in others:
        for total, weight in zip(sums, other.weights, strict=True):
            total += ops.convert_to_numpy(weight)
    for weight, total in zip(model.weights, sums, strict=True):
        weight.assign((total / len(paths)).astype(np.float32))
    return model
