"""The grid of settings that the paper chooses from (Devlin et al. 2018, appendix A.3); the best run is kept."""

import contextlib
import dataclasses
import itertools
import logging
import shutil
from pathlib import Path
from typing import Any

from keras_bert.storage import check_new_folder, read_json, write_json
from keras_bert.tasks.run.best_epoch import METRICS
from keras_bert.tasks.run.finetune import MODEL, finetune
from keras_bert.tasks.run.model_card import write_card
from keras_bert.tasks.run.settings import FILE, FinetuneSettings

logger = logging.getLogger("keras_bert")

GRID: dict[str, tuple[Any, ...]] = {
    "batch_size": (16, 32),
    "learning_rate": (5e-5, 3e-5, 2e-5),
    "epochs": (2, 3, 4),
}


def finetune_grid(settings: FinetuneSettings, output: Path, grid: dict[str, tuple[Any, ...]] = GRID) -> dict[str, Any]:
    """Train once for each combination of the grid, and keep the best run as `output`; otherwise as `finetune`.

    Repeating the call skips runs that are complete. Only the best run keeps its weights.
    """
    check_new_folder(output)
    folder = output.with_name(output.name + ".partial")
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    runs: list[dict[str, Any]] = []
    best = folder
    for number, values in enumerate(combinations, 1):
        run = folder / "-".join(f"{name}={value:g}" for name, value in values.items())
        logger.info("Run %d of %d: %s", number, len(combinations), run.name)
        try:
            metrics = _run(dataclasses.replace(settings, **values), run)
        except BaseException:
            with contextlib.suppress(OSError):
                folder.rmdir()  # unless a run left something there
            raise
        runs.append({**values, "score": metrics["valid"][metrics["chosen_by"]]})
        if runs[-1]["score"] > max((done["score"] for done in runs[:-1]), default=float("-inf")):
            (best / MODEL).unlink(missing_ok=True)
            best = run
        else:
            (run / MODEL).unlink(missing_ok=True)
    metrics = read_json(best / METRICS) | {"grid": runs}
    write_json(best / METRICS, metrics)
    write_card(best / "README.md", FinetuneSettings.from_json(best / FILE), metrics)
    if output.exists():
        output.rmdir()
    best.rename(output)
    shutil.rmtree(folder)
    return metrics


def _run(settings: FinetuneSettings, run: Path) -> dict[str, Any]:
    if not run.exists():
        return finetune(settings, run)
    settings.check_same(run / FILE)
    return read_json(run / METRICS)
