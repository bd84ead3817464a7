"""The folder of a run's checkpoints, of either backend: the latest one, and whether it fits the run."""

import re

from keras_bert import storage
from keras_bert.lazy import tf

NAMES = {"tensorflow": "ckpt-", "jax": "step_"}  # how the checkpoints of each backend begin
END_OF_INDEX = bytes.fromhex("57fb808b247547db")  # the magic number at the end of a table of LevelDB


class OtherRun(ValueError):
    """A checkpoint of another run, or of other devices."""


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
    if not storage.exists(record):  # it was lost, or the run was killed just before it
        steps = [step_of(name) for name in storage.names_in(directory) if re.fullmatch(r"ckpt-\d+\.index", name)]
        return next(filter(_is_complete, (f"{directory}/ckpt-{step}" for step in sorted(steps, reverse=True))), None)
    state = tf.train.get_checkpoint_state(directory)
    path = f"{directory}/{state.model_checkpoint_path.rpartition('/')[2]}" if state else ""
    if not state or not tf.io.gfile.exists(f"{path}.index"):
        raise FileNotFoundError(
            f"The run cannot be resumed, since {f'{path}.index is missing' if state else f'{record} is damaged'}. "
            f"Restore the file, or delete {directory} to start again from the first step. Received: {directory}"
        )
    return path


def _is_complete(path: str) -> bool:
    """Whether the index of a checkpoint, which TensorFlow writes after its other files, is not cut off."""
    return storage.read_bytes(f"{path}.index").endswith(END_OF_INDEX)


def step_of(path: str) -> int:
    """The step of a checkpoint, or of one of its files, such as ckpt-100.index or step_100."""
    found = re.match(r"(?:ckpt-|step_)(\d+)", path.rpartition("/")[2])
    assert found is not None
    return int(found[1])


def check_variables(path: str, found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]]) -> None:
    """Raise an error for a checkpoint with variables of other names or shapes.

    >>> check_variables("run/step_2", {"model/0": (33, 8)}, {"model/0": (40, 8)})
    Traceback (most recent call last):
    keras_bert.training.checkpoint_folder.OtherRun: The checkpoint run/step_2 is of another model or optimizer. ...
    """
    for name in {**expected, **found}:
        if found.get(name) != expected.get(name):
            there, here = (f"has the shape {one[name]}" if name in one else "is missing" for one in (found, expected))
            raise OtherRun(
                f"The checkpoint {path} is of another model or optimizer. Choose another output directory. Received: "
                f"the variable {name}, which {there} in the checkpoint, and {here} in this run"
            )
