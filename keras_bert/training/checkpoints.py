"""Checkpoints: all that a run needs to go on exactly where it was."""

import logging
import re
from typing import Any

import keras
import tensorflow as tf

from keras_bert import storage

logger = logging.getLogger("keras_bert")


class Checkpoints:
    """The checkpoints of a run in a directory, local or of any file system that tf.io.gfile knows.

    A checkpoint holds weights, optimizer, step and the state of every random generator. Of several workers each calls
    `save`, since some variables are read by all together, and the chief's is the one that counts.

    Arguments: variables: lists by name; each must be in the same order when the run is started again. keep: how many
    of the latest stay. keep_every_hours: of the older ones one in so many hours stays too.
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
        self.manager = tf.train.CheckpointManager(checkpoint, own, keep, keep_every_hours)

    @property
    def latest(self) -> str | None:
        """The path of the last complete checkpoint."""
        return latest_checkpoint(self.directory)

    def restore(self) -> bool:
        """Take the state of the last checkpoint; False where there is none."""
        if is_chief(self.strategy):
            self._remove_fragments()
        path = self.latest
        if path is None:
            return False
        self._check(path)
        with self.strategy.scope():
            self.manager.checkpoint.restore(storage.literal_path(path)).assert_consumed()
        logger.info("Going on from %s.", path)
        return True

    def save(self, step: int) -> None:
        """Write one; whatever goes wrong, the last one stays."""
        if self.latest is not None and _number(self.latest) == step:
            return  # to write over the last one would leave none for a moment
        try:
            self.manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            self._remove_fragments()
            raise OSError(
                f"The checkpoint of step {step} could not be written. Make room and run the same command again: it "
                f"goes on from {self.latest or 'the start'}. Received: {str(error).splitlines()[0]}"
            ) from error
        if not is_chief(self.strategy):
            tf.io.gfile.rmtree(self.manager.directory)

    def _check(self, path: str) -> None:
        """Refuse a checkpoint with other variables than ours."""
        found = tf.train.load_checkpoint(storage.literal_path(path)).get_variable_to_shape_map()
        ending = "/.ATTRIBUTES/VARIABLE_VALUE"
        theirs = {name.removesuffix(ending): tuple(shape) for name, shape in found.items() if name.endswith(ending)}
        ours = {f"{name}/{i}": tuple(x.shape) for name, some in self.variables.items() for i, x in enumerate(some)}
        if {**theirs, **ours} != theirs:
            raise ValueError(
                "A checkpoint must be of this model and optimizer. Choose another directory. "
                f"Received: {path}, with {len(theirs)} variables of other shapes or number than these {len(ours)}"
            )

    def _remove_fragments(self) -> None:
        """Files of a checkpoint that was never finished: it is younger than the last whole one."""
        if not tf.io.gfile.isdir(self.directory):
            return
        last = -1 if self.latest is None else _number(self.latest)
        for name in tf.io.gfile.listdir(self.directory):
            path = f"{self.directory}/{name.rstrip('/')}"
            if name.startswith("ckpt-") and _number(path) > last:
                (tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove)(path)


def latest_checkpoint(directory: str) -> str | None:
    """The path of the last complete checkpoint in a directory; None where none was completed.

    `tf.train.latest_checkpoint` looks for the files by a pattern, so that it finds none where the path has a `[`.
    """
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


def _number(path: str) -> int:
    """The step of a checkpoint, or of one of its files, such as ckpt-100.index or ckpt-100_temp."""
    found = re.match(r"ckpt-(\d+)", path.rpartition("/")[2])
    assert found is not None
    return int(found[1])


def native(variable: Any) -> tf.Variable:
    """TensorFlow's variable of a Keras one."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def is_chief(strategy: Any) -> bool:
    """Whether this process writes what all workers share: the chief, or the first worker where there is no chief."""
    resolver = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or not resolver.task_type:
        return True
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return resolver.task_type == first and resolver.task_id == 0
