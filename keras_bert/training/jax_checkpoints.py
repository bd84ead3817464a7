"""Checkpoints of runs on JAX, written by Orbax. `tensorflow_checkpoints.py` is the same for TensorFlow."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np

from keras_bert import storage
from keras_bert.training.checkpoint_folder import OtherRun, check_variables, latest_checkpoint, step_of
from keras_bert.training.strategy import replicas
from keras_bert.training.workers import waiting_for_workers
from keras_bert.wording import first_line, plural

logger = logging.getLogger("keras_bert")


class JaxCheckpoints:
    """The checkpoints of a run, in a directory on any file system that Orbax knows.

    A checkpoint is the folder `step_N`. It holds the weights, the optimizer, the step and the state of every random
    generator. Each process calls `save`; Orbax writes what they share once, in threads, while the training continues.

    variables: lists by name, in the same order whenever the run is started.
    keep, keep_every_hours: as in `tensorflow_checkpoints.py`.
    """

    def __init__(
        self,
        directory: str,
        variables: dict[str, list[Any]],
        *,
        strategy: Any,
        keep: int,
        keep_every_hours: float | None,
    ) -> None:
        try:
            import orbax.checkpoint as orbax
        except ImportError as error:
            raise ImportError(
                "Pretraining on JAX needs Orbax for its checkpoints. Run: pip install 'keras3-bert[jax]'. "
                f"Received: {error}"
            ) from error
        self.directory = directory
        self.variables = {f"{name}.{i}": x for name, some in variables.items() for i, x in enumerate(some)}
        self.strategy = strategy
        self.being_written: int | None = None  # its step
        self.args = orbax.args
        storage.make_folder(directory)
        latest_checkpoint(directory, "jax")  # an error if it is TensorFlow's
        options = orbax.CheckpointManagerOptions(
            max_to_keep=keep,
            keep_time_interval=timedelta(hours=keep_every_hours) if keep_every_hours else None,
            step_prefix="step",
            cleanup_tmp_directories=True,
        )
        path = directory if storage.is_remote(directory) else os.path.abspath(directory)
        self.manager = orbax.CheckpointManager(path, options=options)

    @property
    def latest(self) -> str | None:
        """The path of the last checkpoint, as soon as it is complete."""
        self._finish()
        return self._latest()

    def _latest(self) -> str | None:
        step = self.manager.latest_step()
        return None if step is None else f"{self.directory}/step_{step}"

    def restore(self) -> bool:
        """Restore the state of the last checkpoint; False if there is none."""
        path = self.latest
        if path is None:
            return False
        try:
            found = self.manager.restore(step_of(path), args=self.args.StandardRestore())
            self._check(path, found)
        except Exception as error:
            before = [step for step in self.manager.all_steps() if step < step_of(path)]
            self.manager.close()  # else its threads log errors when the process ends
            if isinstance(error, OtherRun):
                raise
            raise ValueError(
                f"The checkpoint {path} cannot be read. If it is damaged, delete it to resume from "
                f"{f'step {max(before)}' if before else 'the start'}. Received: {first_line(error)}"
            ) from error
        for name, variable in self.variables.items():
            variable.assign(found[name])
        logger.info("Resuming from %s.", path)
        return True

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A block that calls `save`. At its end, also after an error, the last checkpoint is complete."""
        with _one_error():
            try:
                yield
            finally:
                with waiting_for_workers(self.strategy):
                    self._finish()

    def save(self, step: int, *, wait: bool) -> None:
        """Begin to write a checkpoint, after the one before; if one fails, the last complete one is kept.

        wait: until it is complete. Otherwise, its error is raised later.
        """
        self._finish()
        if self.manager.latest_step() == step:
            return
        # Copies, since the next steps may reuse the memory of the values while these are written.
        state = {name: np.array(variable.value) for name, variable in self.variables.items()}
        devices = np.array(replicas(self.strategy))
        with self._failure(step):
            self.manager.save(step, args=self.args.StandardSave({**state, "devices": devices}))
        self.being_written = step
        if wait:
            self._finish()

    def _finish(self) -> None:
        """Wait until the checkpoint that is being written is complete."""
        step, self.being_written = self.being_written, None
        if step is not None:
            with self._failure(step):
                self.manager.wait_until_finished()

    @contextmanager
    def _failure(self, step: int) -> Iterator[None]:
        """A block that writes the checkpoint of a step."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            raise OSError(
                f"The checkpoint of step {step} could not be written. Free some space and run the same command again. "
                f"The run resumes from {self._latest() or 'the start'}. Received: {first_line(error)}"
            ) from error

    def _check(self, path: str, found: dict[str, Any]) -> None:
        """Raise an error for a checkpoint with other variables, or of another number of devices."""
        shapes = {name: np.shape(x) for name, x in found.items() if name != "devices"}
        check_variables(path, shapes, {name: tuple(variable.shape) for name, variable in self.variables.items()})
        if (there := found["devices"]) != replicas(self.strategy):
            theirs, ours = (f"{count} {plural('device', count)}" for count in (int(there), replicas(self.strategy)))
            raise OtherRun(
                f"The checkpoint {path} is of a run on {theirs}. Resume it on that number of devices (--strategy one "
                f"uses one), or choose another directory. Received: {ours}"
            )


@contextmanager
def _one_error() -> Iterator[None]:
    """A block in which the failure of a checkpoint is only raised.

    Orbax also logs its traceback in each of several threads, and TensorStore reports every array that it was still
    writing, since the event loop that waited for them is closed by then. These reports come from other threads, some
    of them later, so that after an error the hook stays.
    """
    absl, before = logging.getLogger("absl"), sys.unraisablehook

    def is_other(record: logging.LogRecord) -> bool:
        return record.exc_info is None

    def report(error: Any) -> None:
        if str(error.exc_value) != "Event loop is closed":
            before(error)

    absl.addFilter(is_other)
    sys.unraisablehook = report
    try:
        yield
    finally:
        absl.removeFilter(is_other)
    sys.unraisablehook = before
