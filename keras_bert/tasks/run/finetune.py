"""Files in, a finished directory out: a task fine-tuned, its best epoch kept, and all that tells how it came to be."""

import contextlib
import dataclasses
import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from keras_bert.inputs import check_length
from keras_bert.pretraining.run.pretrain_recipe import DTYPES
from keras_bert.storage import check_new_folder, lock, read_json, sha256_of, write_json
from keras_bert.tasks.finetune_recipe import Recipe
from keras_bert.tasks.readers import FORMATS, Reading, Rows, read
from keras_bert.tasks.readers.table import SUFFIXES
from keras_bert.tasks.run.epochs import METRICS, Epochs, begun
from keras_bert.tasks.run.kinds import KINDS, Kind, check_labels
from keras_bert.tasks.run.model_card import write_card, write_curve

logger = logging.getLogger("keras_bert")

MODEL, SETTINGS, LABELS = "model.keras", "settings.json", "labels.json"


@dataclasses.dataclass(frozen=True)
class Settings:
    """All that decides a run; the fields are the options of the command line."""

    kind: str  # of KINDS
    train: str
    valid: str
    model: str = "base"  # whatever keras_bert.load takes
    reading: Reading = dataclasses.field(default_factory=Reading)
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 3e-5
    seq_length: int | None = None  # None: 384 for answer, 128 for the others
    seed: int = 0
    dtype: str = "float32"
    freeze: int | None = None  # this many encoder blocks, and the embeddings; -1: the whole encoder
    lora: int | None = None  # rank
    strategy: str = "one"  # of keras_bert.strategy
    cosine: bool = False  # regress compares two embeddings

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"A task is one of {', '.join(KINDS)}. Received: {self.kind!r}")
        for name in ("epochs", "batch_size", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):  # nor NaN
                raise ValueError(f"{name} must be above 0. Received: {getattr(self, name)}")
        columns = (*self.reading.text, *self.reading.choices, self.reading.label)
        if len(set(columns)) < len(columns):
            raise ValueError(f"Each column must have one use. Name another. Received: {', '.join(map(repr, columns))}")
        if self.reading.header is None:  # told here, since other columns may be named when the task is asked
            header = any(isinstance(column, str) for column in columns)
            object.__setattr__(self, "reading", dataclasses.replace(self.reading, header=header))
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}. Received: dtype={self.dtype!r}")
        if not 0 <= self.seed < 2**32:  # numpy's bound
            raise ValueError(f"seed must be 0 or more, and below 2^32. Received: seed={self.seed}")
        if self.lora is not None and self.freeze is not None:
            raise ValueError("LoRA freezes the encoder as it is. Give freeze or lora. Received: both")
        if self.cosine and (self.kind != "regress" or len(self.reading.text) != 2):
            raise ValueError(
                "A cosine is of two texts: finetune regress with two text columns. "
                f"Received: {self.kind} with text={self.reading.text}"
            )

    @property
    def recipe(self) -> Recipe:
        """How the weights are moved."""
        return Recipe(learning_rate=self.learning_rate, epochs=self.epochs, batch_size=self.batch_size)

    @property
    def labelled_lines(self) -> bool:
        """Whether a .txt file is `label text` lines, as the training file is."""
        format = self.reading.format or SUFFIXES.get(Path(self.train).suffix.lower())
        return format == "label-text" and format in FORMATS[self.kind]

    @classmethod
    def from_json(cls, path: Path) -> "Settings":
        """The settings of a run's directory."""
        values = read_json(path)
        values.pop("sha256", None)
        try:
            return cls(**values | {"reading": Reading(**values["reading"])})
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path.name} must be as keras-bert finetune wrote it. Get it again. Received: {path} ({error})"
            ) from None

    def to_json(self, path: Path) -> None:
        """Write them, with the digests of the two files, so that a run never goes on with others."""
        write_json(path, self._record())

    def check_same(self, path: Path) -> None:
        """An error unless a run's directory was begun with these settings and files."""
        begun, now = read_json(path), json.loads(json.dumps(self._record()))
        other = [name for name in now if begun.get(name) != now[name]]
        if other:
            raise ValueError(
                "An interrupted run goes on only with its own settings and files. Give those, or delete its folder "
                f"{str(path.parent)!r} to begin anew. Received: another {', '.join(other)}"
            )

    def _record(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"sha256": [sha256_of(self.train), sha256_of(self.valid)]}


def finetune(settings: Settings, output: Path) -> dict[str, Any]:
    """Train as `settings` say; returns what metrics.json says.

    The work is done in `output` + ".partial", which becomes `output` at the end: model.keras, labels.json,
    settings.json, metrics.json, curve.png, README.md. Interrupted, the same call goes on from its last epoch.
    """
    check_new_folder(output)
    kind = KINDS[settings.kind]
    train, valid = (read(settings.kind, path, settings.reading) for path in (settings.train, settings.valid))
    known = {label for _, label in kind.labels(train)}
    several = settings.kind == "classify" and isinstance(train.y[0], list)
    if len(known) == 1 and not several:
        raise ValueError(
            "There must be at least two labels to tell apart. Add examples of another, or name the right column. "
            f"Received: {known.pop()!r} throughout {train.path}"
        )
    if several and not known:
        raise ValueError(f"Some text must have a label. Add labels. Received: {train.path}, whose lists are all empty")
    check_labels(kind, valid, known)
    folder = output.with_name(output.name + ".partial")
    with _claimed(folder, settings):
        metrics = _run(settings, kind, folder, train, valid)
    if output.exists():
        output.rmdir()  # empty, see check_new_folder
    folder.rename(output)
    return metrics


def load_encoder(settings: Settings) -> Any:
    """The encoder to begin from, frozen or with LoRA as the settings say."""
    from keras_bert.weights.load import load

    seq_length = settings.seq_length or KINDS[settings.kind].seq_length
    bert = load(settings.model, dtype=settings.dtype, seq_length=seq_length)
    check_length(settings.seq_length, bert.config.max_position_embeddings)
    if settings.lora is not None:
        bert.enable_lora(settings.lora)
    elif settings.freeze is not None:
        bert.freeze(None if settings.freeze < 0 else settings.freeze)
    return bert


def _run(settings: Settings, kind: Kind, folder: Path, train: Rows, valid: Rows) -> dict[str, Any]:
    from rich.console import Console

    keras.utils.set_random_seed(settings.seed)
    with _scope(settings.strategy):
        task = kind.build(load_encoder(settings), train, settings)
    options = {"batch_size": settings.batch_size, "characters": settings.reading.format == "korquad"}
    epochs = Epochs(folder, kind.best(task), valid.x, valid.y, **options)
    if epochs.done:
        logger.info("Going on after epoch %d of %d in %s", epochs.done, settings.epochs, folder)
    if epochs.done < settings.epochs:
        task.fit(
            train.x,
            train.y,
            recipe=settings.recipe,
            validation_data=(valid.x, valid.y),
            callbacks=[epochs],
            initial_epoch=epochs.done,
            seed=settings.seed,
            verbose=1 if Console().is_interactive else 0,
        )
    metrics = epochs.finish(folder / MODEL) | {"rows": {"train": len(train), "valid": len(valid)}}
    write_json(folder / METRICS, metrics)
    write_json(folder / LABELS, list(getattr(task, "labels", [])))
    write_curve(folder / "curve.png", metrics)
    write_card(folder / "README.md", settings, metrics)
    return metrics


def _scope(name: str) -> Any:
    """On one device Keras's own fit runs, whose shapes need not be static."""
    import tensorflow as tf

    from keras_bert.training.strategy import strategy

    found = strategy(name)
    many = found.num_replicas_in_sync > 1 or isinstance(found, tf.distribute.TPUStrategy)
    return found.scope() if many else contextlib.nullcontext()


@contextlib.contextmanager
def _claimed(folder: Path, settings: Settings) -> Iterator[None]:
    """The folder of a run, for this process alone; gone again if the run fails before its first epoch is over."""
    record, lock_file = folder / SETTINGS, folder / "lock"
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
