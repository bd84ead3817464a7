"""The directory of a pretraining run: its settings and its lock, the finished model, and its curve."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_bert import storage
from keras_bert.lazy import tf
from keras_bert.pictures.curves import draw_curves
from keras_bert.pretraining.examples.examples_directory import differences
from keras_bert.training.checkpoints import latest_checkpoint
from keras_bert.training.metrics_log import METRICS, read_metrics
from keras_bert.weights import our_folder
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.load import read

SETTINGS = "run.json"
LOCK = ".lock"


@contextmanager
def run_directory(directory: str, settings: dict[str, Any]) -> Iterator[None]:
    """Reserve a directory for a run with these settings: a new or empty one, or that of the same run.

    A run that fails in front of its first checkpoint leaves the directory as it was.
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
        settings = json.loads(json.dumps(settings))
        found = storage.read_json(path)
        if not found or not _has_work(directory):
            storage.write_json(path, settings)
        elif found != settings:
            raise FileExistsError(
                f"{directory} holds a run with other settings. Choose another directory, or use the settings of that "
                f"run. Received: {differences(found, settings)}"
            )
        try:
            yield
        except BaseException:
            if not _has_work(directory):
                _clear(directory, is_new)
            raise


def _has_work(directory: str) -> bool:
    """Whether there is a checkpoint or the finished model."""
    return is_finished(directory) or latest_checkpoint(f"{directory}/checkpoints") is not None


def _clear(directory: str, is_new: bool) -> None:
    for name in (SETTINGS, METRICS, "tensorboard", "checkpoints"):
        if storage.exists(f"{directory}/{name}"):
            storage.remove(f"{directory}/{name}")
    if storage.is_remote(directory):
        return
    Path(directory, LOCK).unlink()
    if is_new:
        Path(directory).rmdir()


def is_finished(directory: str) -> bool:
    """Whether the directory has the complete model."""
    return storage.exists(f"{directory}/{our_folder.WEIGHTS}")


def write_model(pretrainer: Any, directory: str) -> None:
    """Write the finished model in the package's own format. The weights come last: with them, it is complete."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "model"
        our_folder.write_checkpoint(Checkpoint.of(pretrainer), written)
        for path in sorted(written.iterdir(), key=lambda path: path.name == our_folder.WEIGHTS):
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
    """Draw `curve.png`: losses and accuracies over the steps, for training and validation."""
    records = read_metrics(f"{directory}/{METRICS}")
    panels: dict[str, dict[str, tuple[Any, Any]]] = {}
    for name in dict.fromkeys(name for record in records for name in record if name.endswith(("loss", "accuracy"))):
        measure = name.removeprefix("validation_")
        steps, values = zip(*((record["step"], record[name]) for record in records if name in record), strict=True)
        part = "training" if measure == name else "validation"
        panels.setdefault(measure.replace("_", " "), {})[part] = steps, values
    figure = draw_curves(panels, "step")
    with storage.new_file(f"{directory}/curve.png") as temporary, tf.io.gfile.GFile(temporary, "wb") as file:
        figure.savefig(file, format="png")
