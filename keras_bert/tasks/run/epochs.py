"""What a run keeps after each epoch: its scores, the best model so far, and all that the next epoch begins from."""

import logging
import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.storage import read_json, write_json
from keras_bert.tasks.metrics.scores import Scores

logger = logging.getLogger("keras_bert")

METRICS = "metrics.json"


class Epochs(Scores):
    """Scores each epoch, keeps the best model, and lets a killed run go on from its last epoch with the same bits.

    metrics.json is written last and tells which files count, so that a kill at any moment leaves whole epochs behind.

    Arguments: folder: where the run's files lie. best: the name of the score that chooses the best epoch; of two that
    are equal the earlier one. x, y, options: of `scores`.
    """

    def __init__(self, folder: Path, best: str, x: Any, y: Any, **options: Any) -> None:
        super().__init__(x, y, **options)
        self.folder = folder
        self.best = best
        self.history: list[dict[str, Any]] = []
        if begun(folder):
            self.history = read_json(folder / METRICS)["epochs"]

    @property
    def done(self) -> int:
        """How many epochs are over."""
        return len(self.history)

    @property
    def best_epoch(self) -> int:
        """The number of the best epoch, from 1."""
        scores = [epoch["scores"][self.best] for epoch in self.history]
        return scores.index(max(scores)) + 1

    @property
    def best_model(self) -> Path:
        """The file of the best model so far."""
        return self._model_file(self.best_epoch)

    def on_train_begin(self, logs: Any = None) -> None:
        if self.done:
            _restore(self.model, self._variables_file(self.done))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        losses = {name: float(logs[name]) for name in ("loss", "val_loss") if name in logs}
        if not all(map(math.isfinite, losses.values())):
            raise FloatingPointError(
                "The loss must be a number. Lower the learning rate, or take float32 or mixed_bfloat16; the epochs "
                f"before are kept. Received: {losses} in epoch {epoch + 1}"
            )
        scores = self.found()
        logs |= {f"val_{name}": value for name, value in scores.items()}
        before = self.best_model if self.done else None
        self.history.append({"epoch": epoch + 1, **losses, "scores": scores})
        if self.best_epoch == self.done:
            self.model.save(self._model_file(self.done))
        _save(self.model, self._variables_file(self.done))
        write_json(self.folder / METRICS, self._metrics())
        self._variables_file(self.done - 1).unlink(missing_ok=True)
        if before is not None and before != self.best_model:
            before.unlink()
        if not self.params["verbose"]:  # else Keras's bar tells the same
            said = ", ".join(f"{name} {value:.4f}" for name, value in {**losses, **scores}.items())
            logger.info("Epoch %d: %s%s", self.done, said, ", the best" if self.best_epoch == self.done else "")

    def finish(self, path: Path) -> dict[str, Any]:
        """Leave the best model alone, under this name and without its optimizer; what metrics.json says."""
        if not path.exists():
            keras.models.load_model(self.best_model, compile=False).save(self.folder / "new.keras")
            (self.folder / "new.keras").replace(path)
        for file in self.folder.glob("epoch-*"):
            file.unlink()
        return self._metrics()

    def _metrics(self) -> dict[str, Any]:
        best = self.best_epoch
        scores = self.history[best - 1]["scores"]
        return {"chosen_by": self.best, "best_epoch": best, "valid": scores, "epochs": self.history}

    def _model_file(self, epoch: int) -> Path:
        return self.folder / f"epoch-{epoch}.keras"

    def _variables_file(self, epoch: int) -> Path:
        return self.folder / f"epoch-{epoch}.npz"


def begun(folder: Path) -> bool:
    """Whether a run has an epoch to go on from."""
    return (folder / METRICS).exists()


def _variables(model: keras.Model) -> list[Any]:
    """Weights, states of the random generators of dropout, and the optimizer's."""
    model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]


def _save(model: keras.Model, path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, *[ops.convert_to_numpy(variable) for variable in _variables(model)])


def _restore(model: keras.Model, path: Path) -> None:
    with np.load(path) as stored:
        for variable, name in zip(_variables(model), stored.files, strict=True):
            variable.assign(stored[name])
