"""A fine-tuning run: two files in, a folder out with the model of the best epoch and the record of the run."""

import contextlib
import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras

from keras_bert.bert import Bert
from keras_bert.checks import check_choice
from keras_bert.config import BertConfig
from keras_bert.progress import EACH_TIME
from keras_bert.storage import check_new_folder, lock, names_in, write_json
from keras_bert.tasks.distillation import no_teacher
from keras_bert.tasks.metrics.by_label import one_sided
from keras_bert.tasks.metrics.scores import LOWER_IS_BETTER, scores
from keras_bert.tasks.readers import Rows, RowStream
from keras_bert.tasks.readers.only_texts import check_held_out
from keras_bert.tasks.rows.labels import check_known
from keras_bert.tasks.run.best_epoch import BestEpoch
from keras_bert.tasks.run.calibrated import calibrated
from keras_bert.tasks.run.epoch_log import EpochLog
from keras_bert.tasks.run.import_callback import callback_of
from keras_bert.tasks.run.label_warnings import warn_of_labels
from keras_bert.tasks.run.model_card import write_card, write_curve
from keras_bert.tasks.run.run_folder import (
    LABELS,
    MODEL,
    SETTINGS_FILE,
    begun,
    check_no_search,
    working_folder,
    write_metrics,
)
from keras_bert.tasks.run.said_once import SaidOnce
from keras_bert.tasks.run.same_start import check_same_start
from keras_bert.tasks.run.saved_step import SavedStep
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.tasks.run.split_rows import split_rows
from keras_bert.tasks.run.training_rows import training_rows
from keras_bert.tasks.task import Task
from keras_bert.text.preprocessor import Preprocessor
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.training.strategy import is_distributed, strategy
from keras_bert.training.workers import waiting_for_workers
from keras_bert.weights.heads import load_head, read_saved

logger = logging.getLogger("keras_bert")

SAVE_EVERY = 1000  # steps, of a run that reads a stream


def finetune(settings: FinetuneSettings, output: Path, *, floors: Sequence[float] = ()) -> dict[str, Any]:
    """Train as `settings` say, and return what is in metrics.json.

    The run works in `output` + ".partial", which becomes `output` at the end: model.keras, labels.json, settings.json,
    metrics.json, metrics.jsonl, tensorboard/, curve.png, README.md. After an interruption the same call resumes after
    the last saved epoch, or within an epoch from the step at which the state was saved last.

    floors: the run ends after an epoch if its best score is below the number for it.
    """
    if keras.backend.backend() == "torch" and settings.strategy != "one":
        raise ValueError(
            "`keras-bert finetune` runs on several devices with TensorFlow or JAX only. Use --strategy one, or set "
            f"KERAS_BACKEND to one of them. Received: strategy={settings.strategy!r}, backend 'torch'"
        )
    if settings.best_by in LOWER_IS_BETTER:
        raise ValueError(
            f"best_by cannot be {settings.best_by}: this is an error, so lower is better, but best_by keeps the epoch "
            f"with the highest value. Use a score such as accuracy. Received: best_by={settings.best_by!r}"
        )
    output = check_new_folder(output)
    callbacks = [callback_of(path) for path in settings.callbacks]
    folder = working_folder(output)
    with SaidOnce().while_running():
        train, valid = read_files(settings)
        with _locked(folder, settings):
            metrics = _run(settings, folder, train, valid, callbacks, floors)
    if output.exists():
        output.rmdir()  # it is empty, see check_new_folder
    folder.rename(output)
    return metrics


def read_files(settings: FinetuneSettings) -> tuple[Rows | RowStream, Rows]:
    """The rows to learn from, and those that decide which epoch is best."""
    task = settings.task
    train = training_rows(settings)
    task.check_rows(train.sample)
    task.check_run(train, settings)
    if isinstance(train, Rows):
        warn_of_labels(train, [label for _, label in task.labels_of(train)], settings.reading.separator)
    if task.learns_texts:
        check_held_out(train.sample, settings.split, settings.valid)
    if settings.split is not None:
        train, valid = split_rows(train, settings.split, task.labels_of(train.sample))
    else:
        file = str(settings.valid)
        valid = task.read_rows(file, settings.reading)
        if Path(file).samefile(settings.train):
            logger.warning(
                "%s is both the training and the validation file, so the scores say nothing about new rows. Give "
                "another --valid, or --split 0.1.", file
            )  # fmt: skip
    settings.check_scale(train.sample, valid)
    if learned := {label for _, label in task.labels_of(train.sample)}:
        settings.check_labels(learned, train.sample)
        check_known(task.labels_of(valid), valid, learned)
    return train, valid


def load_encoder(settings: FinetuneSettings) -> Bert:
    """The encoder to start from, frozen or with LoRA if the settings say so."""
    if settings.vocab is None:
        checkpoint, bert = load_head(settings.model, (), dtype=settings.dtype, seq_length=settings.length)
        bert.source = settings.model  # for an export's manifest
        unused = sorted(set(checkpoint.heads) - {"mlm", "nsp"})
        if unused and settings.model != settings.teacher:  # a student takes the head of its teacher
            logger.info(
                "%s: only the encoder is used, and the task starts with a new head. To train the trained head (%s) "
                "further, load it with the `load` of its task in Python.",
                settings.model,
                ", ".join(unused),
            )
    else:
        bert = _new_encoder(settings)
    settings.check_model(bert.config)
    if settings.layers is not None:
        bert = bert.resize(num_hidden_layers=settings.layers)
    if settings.lora is not None:
        bert.enable_lora(settings.lora)
    elif settings.freeze is not None:
        bert.freeze(None if settings.freeze < 0 else settings.freeze)
    return bert


def load_teacher(settings: FinetuneSettings) -> Task | None:
    """The task to learn from, if the settings name one."""
    if settings.teacher is None:
        return None
    teacher = read_saved(settings.teacher, compile=False)
    if not isinstance(teacher, Task):
        raise no_teacher(settings.teacher)
    return teacher


def _new_encoder(settings: FinetuneSettings) -> Bert:
    """An encoder with random weights and the user's vocabulary."""
    vocabulary = Vocabulary.from_file(str(settings.vocab))
    config = BertConfig.from_size(str(settings.size), vocab_size=len(vocabulary))
    preprocessor = Preprocessor(
        vocabulary,
        lowercase=not settings.cased,
        strip_accents=False if settings.keep_accents else None,
        split_cjk=not settings.no_split_cjk,
        seq_length=settings.length,
        max_length=config.max_position_embeddings,
    )
    return Bert(config, preprocessor, dtype=settings.dtype)


def _new_task(settings: FinetuneSettings, train: Rows | RowStream, devices: Any) -> tuple[Task, Task | None]:
    """The task before its training, and its teacher."""
    teacher = load_teacher(settings)
    keras.utils.set_random_seed(settings.seed if settings.head_seed is None else settings.head_seed)
    with contextlib.nullcontext() if devices is None else devices.scope():
        task = settings.task.from_rows(load_encoder(settings), train.sample, settings)
    task.lesson(teacher, settings.distillation)  # an error now, and not after tokenizing
    if teacher is not None and settings.model == settings.teacher:
        task.copy_head(teacher)
    return task, teacher


def _run(
    settings: FinetuneSettings,
    folder: Path,
    train: Rows | RowStream,
    valid: Rows,
    callbacks: list[Any],
    floors: Sequence[float],
) -> dict[str, Any]:
    from rich.console import Console

    devices = _several_devices(settings.strategy)
    task, teacher = _new_task(settings, train, devices)
    scored_by = task.report_options(settings.reading)
    if settings.best_by is not None and (known := scores(task, valid[:8].x, valid[:8].y, **scored_by)):
        names = tuple(name for name in known if name not in LOWER_IS_BETTER)
        check_choice("best_by", settings.best_by, names)  # before the first epoch, since they depend on the rows
    batch_size = settings.rows_per_batch
    options = scored_by | {"best_by": settings.best_by, "batch_size": batch_size, "max_steps": settings.steps}
    every = SAVE_EVERY if settings.save_every is None and isinstance(train, RowStream) else settings.save_every
    best = BestEpoch(folder, valid, patience=settings.patience, floors=floors, save_each=bool(every), **options)
    saved = SavedStep(folder, best, every=every, max_steps=settings.steps)
    epochs = settings.epochs
    if settings.steps is not None:
        epochs = -(-settings.steps // -(-len(train) // batch_size))
    if devices is not None:
        check_same_start(devices, folder, epochs=best.done, step=saved.step, ended=best.stopped)
    if best.done or saved.step:
        steps = f" and {saved.step} steps" if saved.step else ""
        logger.info("Resuming after epoch %d of %d%s in %s", best.done, epochs, steps, folder)
    # How many epochs `steps` are, `fit` knows better: it may split long texts, and leave out rows.
    if not best.stopped and (settings.steps is not None or best.done < epochs):
        interactive = Console().is_interactive
        with _training_on(devices):
            task.fit(
                train,
                recipe=settings.recipe,
                teacher=teacher,
                distillation=settings.distillation,
                callbacks=[best.averages, best, saved, *([] if interactive else [EpochLog(saved)]), *callbacks],
                epochs=epochs,
                initial_epoch=best.done,
                initial_step=saved.step,
                max_steps=settings.steps,
                seed=settings.seed,
                verbose=int(interactive),
                **settings.task.fit_options(settings),
            )
    metrics = best.finish(folder / MODEL, task) | {"rows": {"train": len(train), "valid": len(valid)}}
    if settings.calibrate:
        metrics["calibration"] = calibrated(folder / MODEL, valid, batch_size, metrics["valid"], **scored_by)
    details = metrics.get("calibration") or metrics
    for sentence in one_sided(details, len(valid), weighted=settings.class_weight is not None):
        logger.warning("%s", sentence, extra=EACH_TIME)
    write_metrics(folder, metrics)
    write_json(folder / LABELS, list(task.labels))
    write_curve(folder / "curve.png", metrics)
    write_card(folder / "README.md", settings, metrics)
    return metrics


def _several_devices(name: str) -> Any:
    """The strategy with this name if it is of several devices, or else None: then Keras's own `fit` runs."""
    found = strategy(name) if keras.backend.backend() == "tensorflow" or name != "one" else None
    return found if found is not None and is_distributed(found) else None


@contextlib.contextmanager
def _training_on(devices: Any) -> Iterator[None]:
    """The block in which the task is trained. If other processes take part, those that stop are named."""
    if devices is None:
        yield
        return
    scope = devices.scope() if keras.backend.backend() == "jax" else contextlib.nullcontext()
    with scope, waiting_for_workers(devices):
        yield


@contextlib.contextmanager
def _locked(folder: Path, settings: FinetuneSettings) -> Iterator[None]:
    """Keep other processes out of a run's folder; delete it if the run fails before its first epoch is saved."""
    record, lock_file = folder / SETTINGS_FILE, folder / "lock"
    check_no_search(folder)
    if begun(folder):
        settings.check_same(record)
    folder.mkdir(parents=True, exist_ok=True)
    if not record.exists() and (others := set(names_in(folder)) - {lock_file.name}):
        raise FileExistsError(
            f"{folder} is not the folder of an interrupted run, so it stays as it is. Move it, or choose another "
            f"output (--output). Received: a folder with {min(others)}"
        )
    with lock(lock_file):
        settings.to_json(record)
        try:
            yield
        except BaseException as error:
            if not begun(folder):
                shutil.rmtree(folder)
            elif isinstance(error, KeyboardInterrupt | SystemExit):  # Ctrl-C or SIGTERM
                logger.warning("Interrupted. The same command resumes from %s.", folder)
            raise
        lock_file.unlink()
