"""Checkpoints of runs on JAX, written by Orbax. `checkpoints.py` is the same for TensorFlow."""

import logging
import os
from datetime import timedelta
from typing import Any

import numpy as np

from keras_bert import storage
from keras_bert.training.checkpoints import check_variables, latest_checkpoint, step_of
from keras_bert.training.strategy import replicas
from keras_bert.wording import first_line

logger = logging.getLogger("keras_bert")


class Checkpoints:
    """The checkpoints of a run, in a directory on any file system that Orbax knows.

    A checkpoint is the folder `step_N`. It holds the weights, the optimizer, the step and the state of every random
    generator. Each process calls `save`; Orbax writes what they share once.

    variables: lists by name, in the same order whenever the run is started.
    keep, keep_every_hours: as in `checkpoints.py`.
    """

    def __init__(
        self,
        directory: str,
        variables: dict[str, list[Any]],
        *,
        strategy: Any,
        keep: int = 5,
        keep_every_hours: float | None = None,
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
        self.replicas = replicas(strategy)
        self.args = orbax.args
        storage.make_folder(directory)
        options = orbax.CheckpointManagerOptions(
            max_to_keep=keep,
            keep_time_interval=timedelta(hours=keep_every_hours) if keep_every_hours else None,
            step_prefix="step",
            cleanup_tmp_directories=True,
            enable_async_checkpointing=False,
        )
        path = directory if storage.is_remote(directory) else os.path.abspath(directory)
        self.manager = orbax.CheckpointManager(path, options=options)

    @property
    def latest(self) -> str | None:
        """The path of the last complete checkpoint."""
        latest_checkpoint(self.directory, "jax")  # an error if it is TensorFlow's
        step = self.manager.latest_step()
        return None if step is None else f"{self.directory}/step_{step}"

    def restore(self) -> bool:
        """Restore the state of the last checkpoint; False if there is none."""
        path = self.latest
        if path is None:
            return False
        found = self.manager.restore(step_of(path), args=self.args.StandardRestore())
        self._check(path, found)
        for name, variable in self.variables.items():
            variable.assign(found[name])
        logger.info("Resuming from %s.", path)
        return True

    def save(self, step: int) -> None:
        """Write a checkpoint; if that fails, the last one is kept."""
        if self.manager.latest_step() == step:
            return
        state = {name: np.asarray(variable.value) for name, variable in self.variables.items()}
        try:
            self.manager.save(step, args=self.args.StandardSave({**state, "devices": np.array(self.replicas)}))
        except (OSError, RuntimeError, ValueError) as error:
            raise OSError(
                f"The checkpoint of step {step} could not be written. Free some space and run the same command again. "
                f"The run resumes from {self.latest or 'the start'}. Received: {first_line(error)}"
            ) from error

    def _check(self, path: str, found: dict[str, Any]) -> None:
        """Raise an error for a checkpoint with other variables, or of another number of devices."""
        theirs = {name: np.shape(x) for name, x in found.items() if name != "devices"}
        check_variables(path, theirs, {name: tuple(variable.shape) for name, variable in self.variables.items()})
        if found["devices"] != self.replicas:
            raise ValueError(
                f"The checkpoint {path} is of a run on {found['devices']} devices. Resume it on as many devices, or "
                f"choose another directory. Received: {self.replicas} devices"
            )
