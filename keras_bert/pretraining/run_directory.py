"""The directory of a pretraining run: one run, one process; the finished model, its metrics and its curve."""

import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.training.report import METRICS, read_metrics
from keras_bert.weights import own
from keras_bert.weights.checkpoint import Checkpoint

SETTINGS = "run.json"
LOCK = ".lock"


@contextmanager
def run_directory(directory: str, settings: dict[str, Any]) -> Iterator[None]:
    """Hold a directory for a run of these settings: a new or empty one, or that of the same run."""
    found = _settings_in(directory)
    tf.io.gfile.makedirs(directory)
    others = [name for name in tf.io.gfile.listdir(directory) if not name.startswith((LOCK, SETTINGS))]
    if found is None and others:
        raise FileExistsError(
            "A run needs a new or empty directory, or its own. Choose another. "
            f"Received: {directory}, which holds {others[0]}"
        )
    with _lock(directory):
        settings = json.loads(json.dumps(settings))
        found = _settings_in(directory)
        if found is None:
            _write(f"{directory}/{SETTINGS}", json.dumps(settings, indent=2).encode())
        elif found != settings:
            names = [name for name in {**found, **settings} if found.get(name) != settings.get(name)]
            differences = [f"{name}={settings.get(name)!r}, it had {found.get(name)!r}" for name in names]
            raise FileExistsError(
                "A run goes on with the settings that it began with. Choose another directory, or give them. "
                f"Received: {directory} and {'; '.join(differences)}"
            )
        yield


def _settings_in(directory: str) -> dict[str, Any] | None:
    path = f"{directory}/{SETTINGS}"
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        return json.loads(file.read())


@contextmanager
def _lock(directory: str) -> Iterator[None]:
    """Refuse a second process; the lock ends with its process, however that ends. Remote paths have no locks."""
    if "://" in directory:
        yield
        return
    from filelock import FileLock, Timeout

    lock = FileLock(f"{directory}/{LOCK}")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RuntimeError(
            f"A directory takes one process at a time. Wait for the other, or stop it. Received: {directory}, in use"
        ) from None
    with lock:
        yield


def is_finished(directory: str) -> bool:
    return tf.io.gfile.exists(f"{directory}/{own.WEIGHTS}")


def write_model(pretrainer: Any, directory: str) -> None:
    """The finished model as `load` reads it; the weights come last and at once, so that a half one is none."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "model"
        own.write_checkpoint(Checkpoint.of(pretrainer), written)
        for path in sorted(written.iterdir(), key=lambda path: path.name == own.WEIGHTS):
            _write(f"{directory}/{path.name}", path.read_bytes())


def draw_curve(directory: str) -> None:
    """`curve.png`: losses and accuracies over the steps, of training and of what was held out."""
    from matplotlib.figure import Figure

    records = read_metrics(f"{directory}/{METRICS}")
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, kind in zip(figure.subplots(1, 2), ("loss", "accuracy"), strict=True):
        for name in sorted({name for record in records for name in record if name.endswith(kind)}):
            points = [(record["step"], record[name]) for record in records if name in record]
            style = {"marker": "o"} if name.startswith("validation") else {"linewidth": 1}
            axes.plot(*zip(*points, strict=True), label=name.removesuffix(f"_{kind}").replace("_", " "), **style)
        axes.set(xlabel="step", ylabel=kind)
        axes.legend()
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    _write(f"{directory}/curve.png", drawn.getvalue())


def _write(path: str, content: bytes) -> None:
    with tf.io.gfile.GFile(f"{path}.partial", "wb") as file:
        file.write(content)
    tf.io.gfile.rename(f"{path}.partial", path, overwrite=True)
