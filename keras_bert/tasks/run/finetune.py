"""A fine-tuning run: two files in, a folder out with the model of the best epoch and the record of the run."""

import contextlib
import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras

from keras_bert.inputs import check_length
from keras_bert.installation import has_tensorflow
from keras_bert.storage import check_new_folder, lock, write_json
from keras_bert.tasks.labels import check_known
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.run.best_epoch import METRICS, BestEpoch, begun
from keras_bert.tasks.run.import_callback import callback_of
from keras_bert.tasks.run.model_card import write_card, write_curve
from keras_bert.tasks.run.settings import FILE, FinetuneSettings
from keras_bert.training.strategy import is_distributed, strategy
from keras_bert.weights.load import load

logger = logging.getLogger("keras_bert")

MODEL, LABELS = "model.keras", "labels.json"


def finetune(settings: FinetuneSettings, output: Path, *, floors: Sequence[float] = ()) -> dict[str, Any]:
    """Train as `settings` say, and return what is in metrics.json.

    The run works in `output` + ".partial", which becomes `output` at the end: model.keras, labels.json, settings.json,
    metrics.json, metrics.jsonl, tensorboard/, curve.png, README.md. After an interruption the same call resumes after
    the last complete epoch.

    floors: the run ends after an epoch if its best score is below the number for it.
    """
    if settings.strategy != "one" and keras.backend.backend() != "tensorflow":
        raise ValueError(
            "Only the TensorFlow backend can train on several devices. Use --strategy one, or start again with "
            f"KERAS_BACKEND=tensorflow. Received: strategy={settings.strategy!r}, backend {keras.backend.backend()!r}"
        )
    check_new_folder(output)
    callbacks = [callback_of(path) for path in settings.callbacks]
    task = settings.task
    train, valid = (task.read_rows(path, settings.reading) for path in (settings.train, settings.valid))
    task.check_rows(train)
    check_known(task.labels_of(valid), valid, {label for _, label in task.labels_of(train)})
    folder = output.with_name(output.name + ".partial")
    with _locked(folder, settings):
        metrics = _run(settings, folder, train, valid, callbacks, floors)
    if output.exists():
        output.rmdir()  # it is empty, see check_new_folder
    folder.rename(output)
    return metrics


def load_encoder(settings: FinetuneSettings) -> Any:
    """The encoder to start from, frozen or with LoRA if the settings say so."""
    bert = load(settings.model, dtype=settings.dtype, seq_length=settings.length)
    check_length(settings.seq_length, bert.config.max_position_embeddings)
    if settings.lora is not None:
        bert.enable_lora(settings.lora)
    elif settings.freeze is not None:
        bert.freeze(None if settings.freeze < 0 else settings.freeze)
    return bert


def _run(
    settings: FinetuneSettings, folder: Path, train: Rows, valid: Rows, callbacks: list[Any], floors: Sequence[float]
) -> dict[str, Any]:
    from rich.console import Console

    keras.utils.set_random_seed(settings.seed if settings.head_seed is None else settings.head_seed)
    with _scope(settings.strategy):
        task = settings.task.from_rows(load_encoder(settings), train, settings)
    options = {"batch_size": settings.batch_size, **task.report_options(settings.reading)}
    best = BestEpoch(folder, valid, patience=settings.patience, floors=floors, **options)
    if best.done:
        logger.info("Resuming after epoch %d of %d in %s", best.done, settings.epochs, folder)
    if best.done < settings.epochs and not best.stopped:
        task.fit(
            train.x,
            train.y,
            recipe=settings.recipe,
            callbacks=[best.averages, best, *callbacks],
            initial_epoch=best.done,
            seed=settings.seed,
            verbose=1 if Console().is_interactive else 0,
        )
    metrics = best.finish(folder / MODEL) | {"rows": {"train": len(train), "valid": len(valid)}}
    write_json(folder / METRICS, metrics)
    write_json(folder / LABELS, list(task.labels))
    write_curve(folder / "curve.png", metrics)
    write_card(folder / "README.md", settings, metrics)
    return metrics


def _scope(name: str) -> Any:
    """The scope of a strategy of several devices. On one device Keras's own fit runs, without static shapes."""
    if name == "auto" and not has_tensorflow():
        return contextlib.nullcontext()
    found = strategy(name)  # an error without TensorFlow
    return found.scope() if is_distributed(found) else contextlib.nullcontext()


@contextlib.contextmanager
def _locked(folder: Path, settings: FinetuneSettings) -> Iterator[None]:
    """Keep other processes out of a run's folder; delete it if the run fails before its first epoch is complete."""
    record, lock_file = folder / FILE, folder / "lock"
    if begun(folder):
        settings.check_same(record)
    folder.mkdir(parents=True, exist_ok=True)
    with lock(lock_file):
        settings.to_json(record)
        try:
            yield
        except BaseException:
            if not begun(folder):
                shutil.rmtree(folder)
            raise
        lock_file.unlink()
