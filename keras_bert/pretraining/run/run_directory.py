"""The directory of a pretraining run: one run, one process; the finished model, its metrics and its curve."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert import storage
from keras_bert.training.checkpoints import latest_checkpoint
from keras_bert.training.report import METRICS, read_metrics
from keras_bert.weights import our_folder
from keras_bert.weights.checkpoint import Checkpoint

SETTINGS = "run.json"
LOCK = ".lock"


@contextmanager
def run_directory(directory: str, settings: dict[str, Any]) -> Iterator[None]:
    """Hold a directory for a run of these settings: a new or empty one, or that of the same run."""
    path = f"{directory}/{SETTINGS}"
    is_new = not storage.exists(directory)
    others = [name for name in storage.names_in(directory) if name != LOCK]
    if others and not storage.exists(path):
        raise FileExistsError(
            "A run needs a new or empty directory, or its own. Choose another. "
            f"Received: {directory}, which holds {others[0]}"
        )
    storage.make_folder(directory)
    with storage.lock(f"{directory}/{LOCK}"):
        settings = json.loads(json.dumps(settings))
        found = storage.read_json(path)
        if not found or not _has_work(directory):  # a mistyped option is mended in place
            storage.write_json(path, settings)
        elif found != settings:
            names = [name for name in {**found, **settings} if found.get(name) != settings.get(name)]
            differences = [f"{name}={settings.get(name)!r}, it had {found.get(name)!r}" for name in names]
            raise FileExistsError(
                "A run goes on with the settings that it began with. Choose another directory, or give them. "
                f"Received: {directory} and {'; '.join(differences)}"
            )
        try:
            yield
        except BaseException:
            if not _has_work(directory):
                _leave(directory, is_new)
            raise


def _has_work(directory: str) -> bool:
    """Whether there is a checkpoint to go on from, or the finished model."""
    return is_finished(directory) or latest_checkpoint(f"{directory}/checkpoints") is not None


def _leave(directory: str, is_new: bool) -> None:
    """Take away what a run has written that got to no checkpoint."""
    for name in (SETTINGS, METRICS, "tensorboard", "checkpoints"):
        if storage.exists(f"{directory}/{name}"):
            storage.remove(f"{directory}/{name}")
    if storage.is_remote(directory):
        return
    Path(directory, LOCK).unlink()
    if is_new:
        Path(directory).rmdir()


def is_finished(directory: str) -> bool:
    """Whether the model is there, whole."""
    return storage.exists(f"{directory}/{our_folder.WEIGHTS}")


def write_model(pretrainer: Any, directory: str) -> None:
    """The finished model as `load` reads it; the weights come last and at once, so that a half one is none."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "model"
        our_folder.write_checkpoint(Checkpoint.of(pretrainer), written)
        for path in sorted(written.iterdir(), key=lambda path: path.name == our_folder.WEIGHTS):
            with storage.new_file(f"{directory}/{path.name}") as temporary:
                tf.io.gfile.copy(str(path), temporary, overwrite=True)


@contextmanager
def finished_model(directory: str) -> Iterator[Checkpoint]:
    """What `write_model` wrote, its arrays unread; a remote one is copied first."""
    if not storage.is_remote(directory):
        yield our_folder.read_checkpoint(Path(directory))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in storage.names_in(directory):
            if not tf.io.gfile.isdir(f"{directory}/{name}"):
                tf.io.gfile.copy(f"{directory}/{name}", f"{folder}/{name}")
        yield our_folder.read_checkpoint(Path(folder))


def draw_curve(directory: str) -> None:
    """`curve.png`: losses and accuracies over the steps, of training and of what was held out."""
    from keras_bert.pictures.curves import draw_curves

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
