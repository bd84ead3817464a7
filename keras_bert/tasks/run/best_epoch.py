"""BestEpoch: the record of a run after each epoch: its scores, the best model so far, and the state to resume from."""

import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.progress import EACH_TIME
from keras_bert.storage import new_file
from keras_bert.tasks.fitting.epoch_position import steps_in
from keras_bert.tasks.fitting.validation import Validation
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.run.run_folder import STEP_FILE, metrics_of, read_state, write_metrics
from keras_bert.training.averaged_weights import AveragedWeights
from keras_bert.training.metrics_log import MetricsFiles

logger = logging.getLogger("keras_bert")

SAVED_STEPS = 20  # after which the state of a large model is saved at the end of an epoch
SMALL = 5_000_000  # weights: the state of a smaller model is saved after each epoch


class BestEpoch(Validation):
    """Validates each epoch, keeps the best model, and lets a killed run resume with the same bits.

    metrics.json is written last and decides which files count, so a kill at any moment leaves only complete epochs.
    Short epochs of a large model are saved together, since writing may take longer than training.

    Args:
        folder: of the run.
        rows: the validation rows.
        best_by: the score that decides which epoch is best; None: the task's own.
        patience: stop after so many epochs that are no better than the best; None: never.
        floors: stop after an epoch whose best score is below the number for it.
        max_steps: as in `fit`.
        save_each: save after each epoch, also after short ones.
        options: of `Validation`.
    """

    def __init__(
        self,
        folder: Path,
        rows: Rows,
        *,
        best_by: str | None = None,
        patience: int | None = None,
        floors: Sequence[float] = (),
        max_steps: int | None = None,
        save_each: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(rows.x, rows.y, **options)
        self.best_by = best_by
        self.details: dict[str, Any] = {}  # of the latest validation
        self.folder = folder
        self.patience = patience
        self.floors = floors
        self.max_steps = max_steps
        self.save_each = save_each
        self.averages = AveragedWeights()  # comes before this callback
        self.files: Any = None
        self.begun = 0  # steps of the epoch with which the run resumes
        self._began, self._batches = 0.0, 0
        self._unsaved = 0  # steps since the state was saved
        self._best: list[Any] | None = None  # the weights of the best epoch, until they are saved
        self.record: dict[str, Any] = metrics_of(folder) or {"epochs": []}

    @property
    def done(self) -> int:
        """The number of complete epochs."""
        return len(self.record["epochs"])

    @property
    def stopped(self) -> bool:
        """Whether the epochs so far are the last ones."""
        if not self.done:
            return False
        is_patient = self.patience is None or self.done - self.record["best_epoch"] < self.patience
        return self.pruned or not is_patient or "ended" in self.record

    @property
    def pruned(self) -> bool:
        """Whether the best score so far is below the floor of the latest epoch."""
        if not 0 < self.done <= len(self.floors):
            return False
        return self.record["valid"][self.record["chosen_by"]] < self.floors[self.done - 1]

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        if self.done:
            read_state(self._best_file(), self._deleted, "arr_0")  # an error now, and not at the end
            self._put_back(self._state_file(), state_of(self.model))
        self.files = MetricsFiles(str(self.folder), start=self.done * self.params["steps"] + self.begun)

    def on_train_end(self, logs: Any = None) -> None:
        self.files.close()
        self.record["ended"] = True  # perhaps a callback of the user's ended it, which would not do so again
        self._write_best()
        self._write_record()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._began, self._batches = time.perf_counter(), 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._batches = batch + 1  # on several devices, this is called once for several batches

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        trained = {name: float(value) for name, value in logs.items() if not name.startswith("val_")}
        seconds = time.perf_counter() - self._began
        _check_finite({"loss": float(logs["loss"])}, epoch)
        means, scores = self.validate()
        self.add_to(logs, means, scores)
        scores = scores or {name: value for name, value in means.items() if name != "loss"}
        losses = {"loss": float(logs["loss"]), "val_loss": means["loss"]}
        _check_finite(losses, epoch)
        self._append({"epoch": epoch + 1, **losses, "scores": scores})
        if self.pruned:
            self.record["pruned"] = True
        self._write_metrics(trained, seconds, means | scores)
        self._unsaved += self._batches
        is_due = self._unsaved >= SAVED_STEPS or self.save_each or self._is_small()
        if self.record["best_epoch"] == self.done:
            weights = self.model.variables
            self._best = weights if is_due else [np.array(keras.ops.convert_to_numpy(weight)) for weight in weights]
        if is_due:
            self._write_best()
            self.averages.take_out()
            self.save_state()
            self.averages.put_in()
            self._write_record()
            self._unsaved = 0
        if not self.params["verbose"]:  # otherwise Keras's progress bar shows the same
            shown = ", ".join(f"{name} {value:.4f}" for name, value in {**losses, **scores}.items())
            best = ", the best so far" if self.record["best_epoch"] == self.done else ""
            logger.info("Epoch %d: %s%s", self.done, shown, best, extra=EACH_TIME)
        if self.stopped:
            self.model.stop_training = True
            why = ", because its best score is below the median of the earlier runs" if self.pruned else ""
            found = self.done, why, self.record["best_epoch"]
            logger.info("Stopped after epoch %d%s; the best is epoch %d.", *found, extra=EACH_TIME)

    def save_state(self) -> None:
        """Write the state after the last epoch of the record."""
        write_state(self._state_file(), state_of(self.model))

    def _is_small(self) -> bool:
        return sum(math.prod(variable.shape) for variable in self.model.variables) < SMALL

    def _write_best(self) -> None:
        if self._best is not None:
            write_state(self._best_file(), self._best)
            self._best = None

    def _write_record(self) -> None:
        """Write metrics.json, and delete the files that no longer count."""
        write_metrics(self.folder, self.record)
        for file in self.folder.glob("epoch-*"):
            if file not in (self._best_file(), self._state_file()):
                file.unlink()

    def report(self, logits: list[np.ndarray]) -> dict[str, float]:
        self.details = self.model.details(self.columns[1], self.examples, logits, **self.options)
        return super().report(logits)

    def finish(self, path: Path, task: Any) -> dict[str, Any]:
        """Save only the best model, without its optimizer and under this name, and return the record of the run."""
        if not path.exists():
            self._put_back(self._best_file(), task.variables)
            task.compiled, task.optimizer = False, None
            task.save(path)
        for file in (*self.folder.glob("epoch-*"), self.folder / STEP_FILE):
            file.unlink(missing_ok=True)
        return self.record

    def _append(self, epoch: dict[str, Any]) -> None:
        """Add an epoch to the record. It is the best if its score is higher, or as high with a lower validation loss.

        It is compared only with the best one so far, since the models of the others are not kept.
        """
        epochs, name = [*self.record["epochs"], epoch], self.best_by or self.model.best_score_of(self.examples)
        if name not in epoch["scores"]:
            raise ValueError(
                f"{type(self.model).__name__}.best_score names {name!r}, which its report and its metrics do not have. "
                f"Return the name of a score that report returns. Received: the scores {list(epoch['scores'])}"
            )
        best = self.record.get("best_epoch", 1) - 1
        rank, highest = (
            (max(-math.inf, one["scores"][name]), -one["val_loss"])  # NaN, which is above nothing, is the lowest
            for one in (epoch, epochs[best])
        )
        if rank > highest:
            best = len(epochs) - 1
        if best + 1 < len(epochs):  # an earlier epoch is still the best
            self.details = {name: self.record[name] for name in self.details if name in self.record}
        self.record = {
            "chosen_by": name,
            "best_epoch": best + 1,
            "valid": epochs[best]["scores"],
            **self.details,
            "epochs": epochs,
        }

    def write_trained(self, epoch: int, steps: int, trained: dict[str, float], **more: float) -> int:
        """Write what an epoch's steps so far have measured, as a record of the step with which they end."""
        step = epoch * self.params["steps"] + steps
        rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        self.files.write({"step": step, **trained, "learning_rate": rate, **more})
        return step

    def _write_metrics(self, trained: dict[str, float], seconds: float, validated: dict[str, float]) -> None:
        steps = steps_in(self.done - 1, self.params["steps"], self.max_steps)
        step = self.write_trained(self.done - 1, steps, trained, seconds_per_step=seconds / self._batches)
        self.files.write({"step": step, **{f"validation_{name}": value for name, value in validated.items()}})

    def _put_back(self, path: Path, variables: list[Any]) -> None:
        stored = read_state(path, self._deleted)
        for variable, value in zip(variables, stored.values(), strict=True):
            variable.assign(value)

    @property
    def _deleted(self) -> str:
        """What to delete if a state is damaged."""
        return f"the folder {str(self.folder)!r} to start again"

    def _best_file(self) -> Path:
        return self.folder / f"epoch-{self.record['best_epoch']}-best.npz"

    def _state_file(self) -> Path:
        return self.folder / f"epoch-{self.done}.npz"


def _check_finite(losses: dict[str, float], epoch: int) -> None:
    if not all(map(math.isfinite, losses.values())):
        raise FloatingPointError(
            f"The loss of epoch {epoch + 1} is not a finite number. Lower the learning rate. In float16, use "
            f"mixed_bfloat16 instead. The epochs that were saved before it are kept. Received: {losses}"
        )


def write_state(path: Path, variables: list[Any], **more: Any) -> None:
    """Write the values of variables, and `more` arrays by name, for `read_state`."""
    with new_file(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, *map(keras.ops.convert_to_numpy, variables), **more)


def state_of(model: keras.Model) -> list[Any]:
    """The weights, the states of dropout's random generators, and the optimizer's variables."""
    if not model.optimizer.built:  # building again would give a LossScaleOptimizer two more variables
        model.optimizer.build(model.trainable_variables)
    return [*model.variables, *model.optimizer.variables]
