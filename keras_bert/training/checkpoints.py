"""Checkpoints: everything a run needs to resume exactly where it was."""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from keras_bert import storage
from keras_bert.lazy import tf
from keras_bert.training.strategy import is_chief
from keras_bert.wording import first_line

logger = logging.getLogger("keras_bert")

NAMES = {"tensorflow": "ckpt-", "jax": "step_"}  # how the checkpoints of each backend begin


class Checkpoints:
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
        keep: int = 5,
        keep_every_hours: float | None = None,
    ) -> None:
        self.directory = directory
        self.strategy = strategy
        self.variables = {name: [native(variable) for variable in some] for name, some in variables.items()}
        storage.make_folder(directory)
        own = storage.literal_path(directory)  # since the manager finds the files that it deletes by a pattern
        if not is_chief(strategy):
            own = f"{own}/worker-{strategy.cluster_resolver.task_id}"
        checkpoint = tf.train.Checkpoint(**self.variables)
        _forget_the_future(own)
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
        if not tf.io.gfile.isdir(self.directory):
            return
        last = -1 if self.latest is None else step_of(self.latest)
        for name in tf.io.gfile.listdir(self.directory):
            path = f"{self.directory}/{name.rstrip('/')}"
            if name.startswith("ckpt-") and step_of(path) > last:
                (tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove)(path)


def _forget_the_future(directory: str) -> None:
    """If the clock was set back, the manager would never delete earlier checkpoints, whose times lie in the future."""
    state = tf.train.get_checkpoint_state(directory)
    if state and state.last_preserved_timestamp >= time.time():
        tf.compat.v1.train.update_checkpoint_state(
            directory,
            state.model_checkpoint_path,
            all_model_checkpoint_paths=state.all_model_checkpoint_paths,
            all_model_checkpoint_timestamps=[time.time()] * len(state.all_model_checkpoint_paths),
            last_preserved_timestamp=0,
        )


def latest_checkpoint(directory: str, backend: str | None = None) -> str | None:
    """The path of the last complete checkpoint in a directory; None if there is none.

    backend: "tensorflow" or "jax", if a checkpoint of the other one is an error.
    """
    path = _latest_of_tensorflow(directory) or _latest_of_jax(directory)
    if path and backend and not path.rpartition("/")[2].startswith(NAMES[backend]):
        (other,) = NAMES.keys() - {backend}
        raise ValueError(
            f"The checkpoint {path} was written under the backend {other}, the only one that can resume from it. "
            f"To resume, use KERAS_BACKEND={other}. To train from the beginning, choose another directory. "
            f"Received: backend {backend!r}"
        )
    return path


def _latest_of_jax(directory: str) -> str | None:
    """Orbax gives a folder its name when all in it is written."""
    steps = [step_of(name) for name in storage.names_in(directory) if re.fullmatch(r"step_\d+", name)]
    return f"{directory}/step_{max(steps)}" if steps else None


def _latest_of_tensorflow(directory: str) -> str | None:
    """`tf.train.latest_checkpoint` looks for the files with a pattern and finds none if the path contains `[`."""
    record = f"{directory}/checkpoint"  # TensorFlow writes it when all files of a checkpoint are written
    if not storage.exists(record):
        return None
    state = tf.train.get_checkpoint_state(directory)
    path = f"{directory}/{state.model_checkpoint_path.rpartition('/')[2]}" if state else ""
    if not state or not tf.io.gfile.exists(f"{path}.index"):
        raise FileNotFoundError(
            f"The run cannot be resumed, since {f'{path}.index is missing' if state else f'{record} is damaged'}. "
            f"Restore the file, or delete {directory} to start again from the first step. Received: {directory}"
        )
    return path


def step_of(path: str) -> int:
    """The step of a checkpoint, or of one of its files, such as ckpt-100.index or step_100."""
    found = re.match(r"(?:ckpt-|step_)(\d+)", path.rpartition("/")[2])
    assert found is not None
    return int(found[1])


def native(variable: Any) -> "tf.Variable":
    """The TensorFlow variable in a Keras variable."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def check_variables(path: str, found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]]) -> None:
    """Raise an error for a checkpoint with variables of other names or shapes.

    >>> check_variables("run/step_2", {"model/0": (33, 8)}, {"model/0": (40, 8)})
    Traceback (most recent call last):
    ValueError: The checkpoint run/step_2 is of another model ... which has the shape (33, 8) in the checkpoint, ...
    """
    for name in {**expected, **found}:
        if found.get(name) != expected.get(name):
            there, here = (f"has the shape {one[name]}" if name in one else "is missing" for one in (found, expected))
            raise ValueError(
                f"The checkpoint {path} is of another model or optimizer. Choose another output directory. Received: "
                f"the variable {name}, which {there} in the checkpoint, and {here} in this run"
            )
