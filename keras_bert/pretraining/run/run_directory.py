"""The directory of a pretraining run: its settings and its lock, the finished model, and its curve."""

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_bert import storage
from keras_bert.lazy import tf
from keras_bert.pictures.curves import draw_curves, only_a_picture
from keras_bert.pretraining.examples.examples_directory import differences
from keras_bert.training.checkpoint_folder import latest_checkpoint, step_of
from keras_bert.training.metrics_log import METRICS_LOG, read_metrics
from keras_bert.weights import our_folder
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.load import read

logger = logging.getLogger("keras_bert")

SETTINGS = "run.json"
LOCK = ".lock"
CURVE = "curve.png"
DRAWN = ("loss", "accuracy", "learning_rate", "padding_share", "examples_per_second", "share_of_peak")


@contextmanager
def run_directory(directory: str, settings: dict[str, Any]) -> Iterator[Callable[[], None]]:
    """Reserve a directory for a run with these settings: a new or empty one, or that of the same run.

    Only the number of steps may differ; the learning rate and the phases then continue as in a run of that many steps.
    The function that the block gets records that number. It is called when the last checkpoint has been read.
    A run that fails before its first checkpoint leaves the directory as it was.
    """
    path = f"{directory}/{SETTINGS}"
    is_new = not storage.exists(directory)
    others = [name for name in storage.names_in(directory) if name != LOCK]
    if others and not storage.exists(path):
        raise FileExistsError(
            f"{directory} is not empty, and not the directory of a run. Choose a new or empty directory. Received: "
            f"{directory}, which holds {others[0]}"
        )
    storage.make_folder(directory)
    with storage.lock(f"{directory}/{LOCK}"):
        settings = storage.as_read(settings)
        found = storage.read_json(path)
        continues = found != settings and found and _has_work(directory)
        if continues:
            _check_steps(directory, found, settings)
        elif found != settings:
            storage.write_json(path, settings)

        def record() -> None:
            if continues and storage.read_json(path) != settings:
                _change_steps(directory, found, settings)

        try:
            yield record
        except BaseException as error:
            if not _has_work(directory):
                _clear(directory, is_new)
            elif isinstance(error, KeyboardInterrupt | SystemExit):  # a signal stopped it
                draw_curve(directory)
            raise


def _check_steps(directory: str, found: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse settings with which a run cannot be resumed. Only its number of steps may change."""
    if {**found, "steps": settings.get("steps")} != settings:
        raise FileExistsError(
            f"{directory} holds a run with other settings. Choose another directory, or use the settings of that run; "
            f"only its steps may change. Received: {differences(found, settings)}"
        )
    before, steps = found["steps"], settings["steps"]
    last = latest_checkpoint(f"{directory}/checkpoints")
    if last is None:
        raise FileExistsError(
            f"{directory} holds a finished run without checkpoints, so its number of steps cannot change. Start "
            f"another run from its weights (--from). Received: steps={steps} (was {before})"
        )
    if steps < step_of(last):
        raise FileExistsError(
            f"{directory} holds a run that is at step {step_of(last)} already. Use at least as many steps, or choose "
            f"another directory. Received: steps={steps} (was {before})"
        )


def _change_steps(directory: str, found: dict[str, Any], settings: dict[str, Any]) -> None:
    """Make a run one of another number of steps, which has not finished."""
    if storage.exists(_weights(directory)):
        storage.remove(_weights(directory))
    storage.write_json(f"{directory}/{SETTINGS}", settings)
    last = latest_checkpoint(f"{directory}/checkpoints")
    logger.warning(
        "%s: the run of %d steps now has %d steps. From step %d on, its learning rate and phases are those of a run of "
        "%d steps.",
        directory, found["steps"], settings["steps"], step_of(last or ""), settings["steps"],
    )  # fmt: skip


def _has_work(directory: str) -> bool:
    """Whether there is a checkpoint or the finished model."""
    return storage.exists(_weights(directory)) or latest_checkpoint(f"{directory}/checkpoints") is not None


def _clear(directory: str, is_new: bool) -> None:
    for name in (SETTINGS, METRICS_LOG, CURVE, "tensorboard", "checkpoints"):
        if storage.exists(f"{directory}/{name}"):
            storage.remove(f"{directory}/{name}")
    if storage.is_remote(directory):
        return
    Path(directory, LOCK).unlink()
    if is_new:
        Path(directory).rmdir()


def is_finished(directory: str, settings: dict[str, Any]) -> bool:
    """Whether the directory has the complete model of a run with these settings."""
    same = storage.read_json(f"{directory}/{SETTINGS}") == storage.as_read(settings)
    return same and storage.exists(_weights(directory))


def _weights(directory: str) -> str:
    """The file whose presence completes the model."""
    return f"{directory}/{our_folder.WEIGHTS}"


def write_model(pretrainer: Any, directory: str) -> None:
    """Write the finished model in the package's own format. The weights come last: with them, it is complete."""
    if not storage.is_remote(directory):
        our_folder.write_checkpoint(Checkpoint.of(pretrainer), Path(directory))
        return
    with tempfile.TemporaryDirectory() as folder:
        our_folder.write_checkpoint(Checkpoint.of(pretrainer), Path(folder))
        for path in sorted(Path(folder).iterdir(), key=lambda path: path.name == our_folder.WEIGHTS):
            with storage.new_file(f"{directory}/{path.name}") as temporary:
                tf.io.gfile.copy(str(path), temporary, overwrite=True)


@contextmanager
def finished_model(directory: str) -> Iterator[Checkpoint]:
    """The model of `write_model`, whose arrays are read on use; a remote one is copied first."""
    if not storage.is_remote(directory):
        yield read(Path(directory))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in storage.names_in(directory):
            if not tf.io.gfile.isdir(f"{directory}/{name}"):
                tf.io.gfile.copy(f"{directory}/{name}", f"{folder}/{name}")
        yield read(Path(folder))


def draw_curve(directory: str) -> None:
    """Draw `curve.png`: what was measured over the steps, if anything was, for training and validation."""
    path, picture = f"{directory}/{METRICS_LOG}", f"{directory}/{CURVE}"
    panels: dict[str, dict[str, tuple[Any, Any]]] = {}
    with only_a_picture(picture):
        records = read_metrics(path) if storage.exists(path) else []
        if not records:
            return
        for name in dict.fromkeys(name for record in records for name in record if name.endswith(DRAWN)):
            measure = name.removeprefix("validation_")
            steps, values = zip(*((record["step"], record[name]) for record in records if name in record), strict=True)
            part = "training" if measure == name else "validation"
            panels.setdefault(measure.replace("_", " "), {})[part] = steps, values
        figure = draw_curves(panels, "step")
        with storage.new_file(picture) as temporary, tf.io.gfile.GFile(temporary, "wb") as file:
            figure.savefig(file, format="png")
