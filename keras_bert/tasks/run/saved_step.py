"""SavedStep: the state of a run within an epoch, from which it resumes with the same bits."""

from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.tasks.fitting.epoch_position import steps_in
from keras_bert.tasks.run.best_epoch import BestEpoch, state_of, write_state
from keras_bert.tasks.run.run_folder import STEP_FILE, read_step


class SavedStep(keras.callbacks.Callback):
    """Saves the state of a run every so many steps, and puts it back if the run was killed in this epoch.

    It also adds the means of the epoch so far to metrics.jsonl.

    Args:
        best: the callback before this one, which puts back the state after the last complete epoch.
        every: steps; None: never.
        max_steps: as in `fit`.
    """

    def __init__(self, folder: Path, best: BestEpoch, *, every: int | None, max_steps: int | None) -> None:
        super().__init__()
        self.best = best
        self.path = folder / STEP_FILE
        self.every = every
        self.max_steps = max_steps
        self.step = 0  # of the epoch, with which it began
        self.end = 0  # the steps of the epoch
        self._epoch = best.done
        self._sums: list[np.ndarray] = []  # of the metrics of the steps before that one
        if self.path.exists():
            epoch, step = read_step(self.path, "place")["place"].tolist()
            self.step = step if epoch == best.done else 0  # otherwise the run was killed before it could be deleted
        best.begun = self.step

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.step:
            return
        variables = state_of(self.model)
        stored = read_step(self.path)
        for number, variable in enumerate(variables):
            variable.assign(stored[f"arr_{number}"])
        self._sums = [stored[f"arr_{number}"] for number in range(len(variables), len(stored) - 1)]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch != self._epoch:
            self.step = 0
        self._epoch = epoch
        self.end = steps_in(epoch, self.params["steps"], self.max_steps)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._sums:  # the first batch builds the metrics
            for variable, value in zip(self.model.metrics_variables, self._sums, strict=True):
                variable.assign(variable + value)
            self._sums = []
        done = self.step + batch + 1
        if self.every and done % self.every == 0 and done < self.end:
            means = {name: float(mean) for name, mean in self.model.get_metrics_result().items()}
            self.best.write_trained(self._epoch, done, means)  # a resumed run drops records after its state
            state = [*state_of(self.model), *self.model.metrics_variables]
            write_state(self.path, state, place=[self._epoch, done])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.path.unlink(missing_ok=True)
