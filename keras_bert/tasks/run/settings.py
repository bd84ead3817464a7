"""FinetuneSettings: everything that decides a fine-tuning run."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from keras_bert.checks import check_at_least, check_choice
from keras_bert.policy import TRAINABLE_DTYPES
from keras_bert.storage import read_json, sha256_of, write_json
from keras_bert.tasks.distillation import Distillation
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.readers import Reading
from keras_bert.tasks.task import Task
from keras_bert.weights.keras_file import keras_file

SETTINGS_FILE = "settings.json"


@dataclasses.dataclass(frozen=True)
class FinetuneSettings:
    """Everything that decides a run. The fields are the options of the command line."""

    kind: str  # the `command` of a task, such as "classify"
    train: str
    valid: str | None = None  # None: `split` says which share of the training rows is held out
    model: str = "base"  # any source that keras_bert.load accepts
    reading: Reading = dataclasses.field(default_factory=Reading)
    epochs: int = 3
    batch_size: int | None = None  # None: the task's own
    learning_rate: float = 3e-5
    seq_length: int | None = None  # None: the task's own
    seed: int = 0
    dtype: str = "float32"
    freeze: int | None = None  # this many encoder blocks, and the embeddings; -1: the whole encoder
    lora: int | None = None  # rank
    strategy: str = "one"  # as in keras_bert.strategy
    cosine: bool = False  # regress: compare the embeddings of two texts
    loss: str | None = None  # embed: this and the next four as in SentenceEmbedder, its losses and its `fit`
    temperature: float | None = None
    symmetric: bool = False
    pooling: str | None = None
    cache_batch: int | None = None
    long: str | None = None  # these three as in TextClassifier; None: its own default
    pool: str | None = None
    max_windows: int | None = None
    calibrate: bool = False  # classify: set the temperature or the thresholds on the validation rows at the end
    abstain_below: float | None = None  # as in TextClassifier
    teacher: str | None = None  # a finished folder, a .keras file or an export of a task
    distill: dict[str, float] | None = None  # fields of Distillation
    layers: int | None = None  # keep so many blocks of the encoder
    layer_decay: float = 1.0  # this and the next four as in FinetuneRecipe
    ema: float = 0.0
    label_smoothing: float = 0.0
    accumulate: int = 1
    class_weight: Any = None
    patience: int | None = None  # stop after so many epochs that are no better than the best
    head_seed: int | None = None  # of the new weights and the dropout; None: as seed, which the order depends on too
    callbacks: tuple[str, ...] = ()  # by import path, as callback_of takes them
    best_by: str | None = None  # the score that decides which epoch is best; None: the task's own
    split: float | None = None
    size: str | None = None  # of random weights to start from, in place of `model`, with the vocabulary `vocab`
    vocab: str | None = None
    cased: bool = False  # with `vocab`; so are the next two
    keep_accents: bool = False
    no_split_cjk: bool = False
    steps: int | None = None  # batches to train on, in place of `epochs`
    save_every: int | None = None  # steps after which the state is saved within an epoch; None: 1,000 of a stream
    stream: bool | None = None  # whether the training file is read as a stream; None: if it is large

    def __post_init__(self) -> None:
        for name in ("epochs", "learning_rate", "temperature"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < float("inf"):  # refuses NaN too
                raise ValueError(
                    f"`{name}` must be above 0 and finite. Use another value. Received: {name}={getattr(self, name)}"
                )
        for name in ("patience", "steps", "save_every", "cache_batch"):
            if getattr(self, name) is not None:
                check_at_least(self, 1, name)
        if self.strategy != "one" and (self.stream or self.steps or self.save_every):
            raise ValueError(
                "`stream`, `steps` and `save_every` (on the command line --stream, --steps and --save-every) are for "
                "training on one device. Use --strategy one, or leave them out. Received: "
                f"strategy={self.strategy!r}, stream={self.stream}, steps={self.steps}, "
                f"save_every={self.save_every}"
            )
        if (self.valid is None) == (self.split is None):
            raise ValueError(
                "`valid` and `split` are both given, or both missing. Give a validation file, or the share of the "
                f"training rows to hold out. Received: valid={self.valid!r}, split={self.split}"
            )
        if self.split is not None and not 0 < self.split < 1:  # refuses NaN too
            raise ValueError(
                "`split` must be above 0 and below 1. It is the share of the training rows to hold out, such as 0.1. "
                f"Received: split={self.split}"
            )
        if (self.size is None) != (self.vocab is None):
            raise ValueError(
                "`size` and `vocab` belong together. Give both (--size, --vocab) to start from random weights with "
                f"your own vocabulary. Received: size={self.size!r}, vocab={self.vocab!r}"
            )
        columns = self.reading.columns
        if len(set(columns)) < len(columns):
            raise ValueError(
                "A column is named twice among texts, choices, numbers, categories and labels. Name each only once. "
                f"Received: {', '.join(map(repr, columns))}"
            )
        object.__setattr__(self, "callbacks", tuple(self.callbacks))  # JSON makes a list of them
        # Decided here, since other columns may be named when the task answers.
        object.__setattr__(self, "reading", dataclasses.replace(self.reading, header=self.reading.has_header))
        check_choice("dtype", self.dtype, TRAINABLE_DTYPES)
        if not 0 <= self.seed < 2**32:  # numpy's bound
            raise ValueError(f"`seed` must be at least 0 and below 2^32. Use another value. Received: seed={self.seed}")
        if self.lora is not None and self.freeze is not None:
            raise ValueError(
                "`freeze` and `lora` were both given, but LoRA freezes the encoder by itself. Give one of them. "
                f"Received: freeze={self.freeze}, lora={self.lora}"
            )
        for name in sorted({name for task in Task.commands().values() for name in task.run_fields}):
            if getattr(self, name) and name not in self.task.run_fields:
                raise ValueError(
                    f"`{name}` was given, but the task {self.kind!r} does not have it. Leave it out. Received: "
                    f"{name}={getattr(self, name)!r}"
                )
        self._check_teacher()
        self.task.check_settings(self)
        self.recipe  # noqa: B018 - an error if its values are wrong

    def _check_teacher(self) -> None:
        if self.layers is not None:
            check_at_least(self, 1, "layers")
        for name in self.distill or ():
            check_choice("distill", name, tuple(field.name for field in dataclasses.fields(Distillation)))
        if self.distill is not None and self.teacher is None:
            raise ValueError(
                "`distill` was given without `teacher`. Give --teacher too, or leave --distill out. "
                f"Received: distill={self.distill}"
            )
        if self.teacher is not None and self.strategy != "one":
            raise ValueError(
                "A student is trained on one device. Use --strategy one, or leave --teacher out. "
                f"Received: strategy={self.strategy!r}, teacher={self.teacher!r}"
            )
        self.distillation  # noqa: B018 - an error if its values are wrong

    @property
    def task(self) -> type[Task]:
        """The class of the task."""
        return Task.named(self.kind)

    @property
    def rows_per_batch(self) -> int:
        """The rows in a batch of training."""
        return self.task.default_batch_size if self.batch_size is None else self.batch_size

    @property
    def length(self) -> int:
        """The most pieces in a row."""
        return self.seq_length or self.task.default_seq_length

    @property
    def recipe(self) -> FinetuneRecipe:
        """How the weights are trained."""
        fields = {field.name for field in dataclasses.fields(FinetuneRecipe)}
        return FinetuneRecipe(**{name: value for name, value in vars(self).items() if name in fields})

    @property
    def distillation(self) -> Distillation | None:
        """What is learned from the teacher, if there is one."""
        return None if self.teacher is None else Distillation(**(self.distill or {}))

    @property
    def labelled_lines(self) -> bool:
        """Whether a .txt file holds lines of a label, a space and a text, as the training file does."""
        return "label-text" in self.task.formats and self.reading.has_labelled_lines(self.train)

    @classmethod
    def from_json(cls, path: Path) -> "FinetuneSettings":
        """The settings in a run's folder."""
        values = read_json(path)
        values.pop("sha256", None)
        try:
            return cls(**values | {"reading": Reading(**values["reading"])})
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is not as keras-bert finetune wrote it. Copy the run's folder again, or train again. "
                f"Received: {type(error).__name__}: {error}"
            ) from None

    def to_json(self, path: Path) -> None:
        """Write the settings with the digests of its files, so that a run never resumes with other files."""
        write_json(path, self._record())

    def check_same(self, path: Path) -> None:
        """Refuse to resume a run that began with other settings or files."""
        begun, now = read_json(path), json.loads(json.dumps(self._record()))
        if other := [name for name in now if begun.get(name) != now[name]]:
            shown = {name: f"{name} ({begun.get(name)} then, {now[name]} now)" for name in other}
            differences = [shown[name] if name != "sha256" else "the files" for name in other]
            raise ValueError(
                f"The run in {str(path.parent)!r} began with other settings or files. Resume it with those, or "
                f"delete the folder to start again. Received: a difference in {', '.join(differences)}"
            )

    def _record(self) -> dict[str, Any]:
        files: list[Any] = [file for file in (self.train, self.valid, self.vocab) if file is not None]
        if self.teacher is not None:
            teacher = Path(self.teacher)
            export = sorted(path for path in teacher.rglob("*") if path.is_file())
            files += export if (file := keras_file(teacher)) is None else [file]
        digests = [sha256_of(file) for file in files]
        return dataclasses.asdict(self) | {"batch_size": self.rows_per_batch, "sha256": digests}
