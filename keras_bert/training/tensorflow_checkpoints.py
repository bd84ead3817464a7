"""Checkpoints of runs on TensorFlow. `jax_checkpoints.py` is the same for JAX."""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from keras_bert import storage
from keras_bert.lazy import tf
from keras_bert.training.checkpoint_folder import check_variables, latest_checkpoint, step_of
from keras_bert.training.strategy import is_chief
from keras_bert.wording import first_line

logger = logging.getLogger("keras_bert")


class TensorFlowCheckpoints:
    """The checkpoints of a run, in a directory on any file system that tf.io.gfile knows.

    A checkpoint holds the weights, the optimizer, the step and the state of every random generator. With several
    workers, each calls `save`, since some variables can only be read by all together; that of the chief is kept.

    variables: lists by name, in the same order whenever the run is started.
    keep: how many of the latest checkpoints are kept.
    keep_every_hours: of the older ones, one in so many hours is kept.
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
        self.directory = directory
        self.strategy = strategy
        self.variables = {name: [native(variable) for variable in some] for name, some in variables.items()}
        storage.make_folder(directory)
        own = storage.literal_path(directory)  # since the manager finds the files that it deletes by a pattern
        if not is_chief(strategy):
            own = f"{own}/worker-{strategy.cluster_resolver.task_id}"
        checkpoint = tf.train.Checkpoint(**self.variables)
        _ = self.latest  # an error if they are JAX's, before anything is written among them
        _repair_record(own)
        self.manager = tf.train.CheckpointManager(checkpoint, own, keep, keep_every_hours)

    @property
    def latest(self) -> str | None:
        """The path of the last complete checkpoint."""
        return latest_checkpoint(self.directory, "tensorflow")

    def restore(self) -> bool:
        """Restore the state of the last checkpoint; False if there is none."""
        if is_chief(self.strategy):
            self._remove_fragments()
        path = self.latest
        if path is None:
            return False
        self._check(path)
        with self.strategy.scope():
            self.manager.checkpoint.restore(storage.literal_path(path)).assert_consumed()
        logger.info("Resuming from %s.", path)
        return True

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A block that calls `save`. At its end, also after an error, the last checkpoint is complete."""
        yield

    def save(self, step: int, *, wait: bool) -> None:
        """Write a checkpoint; if that fails, the last one is kept.

        wait: until it is complete, as TensorFlow always does.
        """
        if self.latest is not None and step_of(self.latest) == step:
            return  # overwriting it would leave none for a moment
        # TensorFlow counts the saves in the file. After a signal there is one more, which would change all later files.
        self.manager.checkpoint.save_counter.assign(step - 1)
        try:
            self.manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            if is_chief(self.strategy):
                self._remove_fragments()
            raise OSError(
                f"The checkpoint of step {step} could not be written. Free some space and run the same command again. "
                f"The run resumes from {self.latest or 'the start'}. Received: {first_line(error)}"
            ) from error
        if not is_chief(self.strategy):
            tf.io.gfile.rmtree(self.manager.directory)

    def _check(self, path: str) -> None:
        """Raise an error for a checkpoint with other variables."""
        found = tf.train.load_checkpoint(storage.literal_path(path)).get_variable_to_shape_map()
        ending = "/.ATTRIBUTES/VARIABLE_VALUE"
        theirs = {name.removesuffix(ending): tuple(shape) for name, shape in found.items() if name.endswith(ending)}
        ours = {f"{name}/{i}": tuple(x.shape) for name, some in self.variables.items() for i, x in enumerate(some)}
        check_variables(path, {name: shape for name, shape in theirs.items() if name in ours}, ours)

    def _remove_fragments(self) -> None:
        """Remove the files of checkpoints that were not finished: those after the last complete one."""
        last = -1 if self.latest is None else step_of(self.latest)
        for name in storage.names_in(self.directory):
            if re.match(r"ckpt-\d+[._]", name) and step_of(name) > last:
                storage.remove(f"{self.directory}/{name}")


def _repair_record(directory: str) -> None:
    """Write TensorFlow's record of its checkpoints again, if it is missing or from the future.

    Without it, the manager would never delete the last checkpoint. Nor, after the clock was set back, any earlier one.
    """
    state = tf.train.get_checkpoint_state(directory)
    if state and state.last_preserved_timestamp < time.time():
        return
    latest = state.model_checkpoint_path if state else latest_checkpoint(directory)
    if latest is None:
        return
    paths = state.all_model_checkpoint_paths if state else [latest]
    tf.compat.v1.train.update_checkpoint_state(
        directory,
        latest,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=[time.time()] * len(paths),
        last_preserved_timestamp=0,
    )


def native(variable: Any) -> "tf.Variable":
    """The TensorFlow variable in a Keras variable."""
    return variable.value if isinstance(variable, keras.Variable) else variable
