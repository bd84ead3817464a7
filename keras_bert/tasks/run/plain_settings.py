"""PlainSettings: the settings of a fine-tuning run, with the checks that need neither Keras nor the task.

The command line makes them before it imports Keras, which takes seconds, so that a wrong option is refused at once.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from keras_bert.checks import check_above_zero, check_choice, check_length, check_positive
from keras_bert.choices import LONG, MAX_WINDOWS, POOLING, POOLS, STRATEGIES
from keras_bert.config import BertConfig
from keras_bert.storage import read_json, sha256_of, write_json
from keras_bert.tasks.distillation import Distillation, cached_student
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.metrics.calibration import check_calibration
from keras_bert.tasks.metrics.classification import label_score_names, positive_label
from keras_bert.tasks.readers.reading import Reading
from keras_bert.tasks.readers.rows import Rows
from keras_bert.tasks.rows.class_weight import weights_by_name
from keras_bert.tasks.rows.labels import sorted_labels, with_outside
from keras_bert.tasks.rows.sentence_forms import FORMS, OF_LOSSES, check_batch_size
from keras_bert.tasks.run.known_task import known_labels
from keras_bert.tasks.run.run_folder import check_same
from keras_bert.weights.keras_archive import keras_file
from keras_bert.weights.known_config import known_config
from keras_bert.wording import listed

CHOICES = {"loss": tuple(FORMS), "pooling": POOLING, "long": LONG, "pool": POOLS}


@dataclasses.dataclass(frozen=True)
class PlainSettings:
    """Everything that decides a run. The fields are the options of the command line."""

    kind: str  # the `command` of a task, such as "classify"
    train: str
    valid: str | None = None  # None: `split` says which share of the training rows is held out
    model: str = "base"  # any source that keras_bert.load accepts
    reading: Reading = dataclasses.field(default_factory=Reading)
    epochs: int = 3
    batch_size: int | None = None  # None: the task's own
    learning_rate: float = 5e-5
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
    head_seed: int | None = None  # of the new weights and the dropout; None: `seed`, which also orders the rows
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
            if getattr(self, name) is not None:
                check_above_zero(name, getattr(self, name))
        for name in ("patience", "steps", "save_every", "cache_batch", "lora", "layers"):
            if getattr(self, name) is not None:
                check_positive(self, name)
        for name, choices in CHOICES.items():
            if getattr(self, name) is not None:
                check_choice(name, getattr(self, name), choices)
        if not self.strategy.startswith("tpu:"):
            check_choice("strategy", self.strategy, STRATEGIES)
        if self.abstain_below and self.reading.separator is not None:
            raise ValueError(
                "`abstain_below` is for rows with one label, but with `separator` a row has several. Leave out "
                f"--abstain-below or --separator. Received: abstain_below={self.abstain_below}, "
                f"separator={self.reading.separator!r}"
            )
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
        if not 0 <= self.seed < 2**32:  # numpy's bound
            raise ValueError(f"`seed` must be at least 0 and below 2^32. Use another value. Received: seed={self.seed}")
        if self.lora is not None and self.freeze is not None:
            raise ValueError(
                "`freeze` and `lora` were both given, but LoRA freezes the encoder by itself. Give only one of them: "
                "--lora, or --freeze or --freeze-blocks. "
                f"Received: freeze={self.freeze}, lora={self.lora}"
            )
        self._check_cosine_and_windows()
        self._check_sentences()
        self._check_teacher()
        self.recipe  # noqa: B018 - an error if its values are wrong

    @classmethod
    def from_json(cls, path: Path) -> Self:
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

    @property
    def rows_per_batch(self) -> int | None:
        """The rows in a batch of training."""
        return self.batch_size

    def to_json(self, path: Path) -> None:
        """Write the settings with the digests of its files, so that a run never resumes with other files."""
        digests = [sha256_of(file) for file in self._files]
        write_json(path, self._record | {"sha256": digests})

    def check_same(self, path: Path) -> None:
        """Refuse to resume a run that began with other settings or files."""
        check_same(path, self._record, self._files)

    @property
    def _record(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"batch_size": self.rows_per_batch}

    @property
    def _files(self) -> list[str | Path]:
        files: list[str | Path] = [file for file in (self.train, self.valid, self.vocab) if file is not None]
        if self.teacher is not None:
            teacher = Path(self.teacher)
            export = sorted(path for path in teacher.rglob("*") if path.is_file())
            files += export if (file := keras_file(teacher)) is None else [file]
        return files

    @property
    def known_config(self) -> BertConfig | None:
        """The config of the model, if it is known without its weights."""
        return known_config(self.model) if self.size is None else BertConfig.from_size(self.size)

    def check_model(self, config: BertConfig) -> None:
        """Refuse settings that a model with this config cannot have."""
        check_length(self.seq_length, config.max_position_embeddings)
        blocks = config.num_hidden_layers
        for name, option, most in (
            ("layers", "--layers", blocks),
            ("freeze", "--freeze-blocks", self.layers or blocks),
            ("lora", "--lora", config.hidden_size),
        ):
            if (getattr(self, name) or 0) > most:
                what = "the model's hidden size" if name == "lora" else "the number of the model's blocks"
                raise ValueError(
                    f"`{name}` ({option}) must be at most {most}, {what}. Use a smaller number. Received: "
                    f"{name}={getattr(self, name)}"
                )

    def check_labels(self, labels: Iterable[str], rows: Rows) -> None:
        """Refuse settings that do not fit the labels of the training rows."""
        names = sorted_labels(labels)
        several = isinstance(rows.y[0], list)
        check_calibration(names, several, 1.0, None, self.abstain_below or 0.0)
        if isinstance(self.class_weight, dict):
            weights_by_name(self.class_weight, with_outside(names))
        if 0 < (self.abstain_below or 0) <= 1 / len(names):
            raise ValueError(
                f"The most likely of {len(names)} labels never has a probability below {1 / len(names):.3g}, so every "
                "text would be answered. Use a larger `abstain_below` (--abstain-below), or leave it out. Received: "
                f"abstain_below={self.abstain_below}"
            )
        positive_label(names, self.reading.positive, several=several)
        taught = known_labels(self.teacher) if self.teacher else None
        if taught is not None and (unknown := [name for name in names if name not in taught]):
            raise ValueError(
                f"The teacher does not know the label {unknown[0]!r} of {rows.path}. Use a teacher that was trained on "
                f"the same labels. Its labels are {listed(list(map(repr, taught)), 8)}. Received: "
                f"teacher={self.teacher!r}"
            )

    def check_label_score(self, labels: Iterable[str], rows: Rows) -> None:
        """Refuse a `best_by` that a classifier of these labels does not have."""
        several = isinstance(rows.y[0], list)
        positive = positive_label(sorted_labels(labels), self.reading.positive, several=several)
        scores = label_score_names(positive, several=several, abstains=bool(self.abstain_below))
        if self.best_by not in (None, *scores):
            raise ValueError(
                "`best_by` (--best-by) is a score that these rows and options do not have. Use one of "
                f"{', '.join(scores)}. (f1 needs two labels or --positive; f1_micro needs rows with several labels; "
                f"answered and accuracy_answered need --abstain-below.) Received: best_by={self.best_by!r}"
            )

    def check_scale(self, *files: Rows) -> None:
        """Refuse a scale if no file has scores."""
        scored = any(isinstance(score, float) for rows in files for score in rows.y[:1])
        if self.reading.scale != 1 and not scored:
            raise ValueError(
                "`scale` divides scores, but no scores were read. Leave out --scale, or name the column of the scores "
                f"with --label. Received: scale={self.reading.scale:g}, label={self.reading.label!r}"
            )

    def _check_cosine_and_windows(self) -> None:
        texts = self.reading.text
        if self.cosine and (self.kind != "regress" or len(texts) != 2):
            raise ValueError(
                "`cosine` is only for scores of two texts. Use it with the task 'regress' and two text columns. "
                f"Received: task {self.kind!r} with text={texts}"
            )
        of_windows = ("pool", "max_windows") if self.kind == "embed" else ("pool", "max_windows", "cache_batch")
        given = [f"{name}={getattr(self, name)!r}" for name in of_windows if getattr(self, name)]
        if self.long != "windows" and given:
            raise ValueError(
                "Options of windows were given, but texts are not read in windows. Add --long windows, or leave them "
                f"out. Received: long={self.long!r}, {', '.join(given)}"
            )
        most = (self.rows_per_batch or 0) * (self.max_windows or MAX_WINDOWS)
        if self.long == "windows" and most and (self.cache_batch or 0) >= most:
            raise ValueError(
                "`cache_batch` (--cache-batch) is how many windows are computed at a time, but a batch has at most "
                f"{most}. Use a smaller number, or leave it out. Received: cache_batch={self.cache_batch}"
            )
        if self.long == "windows" and len(texts) > 1:
            raise ValueError(
                "Windows are parts of single texts, but `text` names two columns. Use --long head-tail, or name one "
                f"column. Received: long={self.long!r}, text={texts}"
            )

    def _check_sentences(self) -> None:
        if self.kind != "embed":
            return
        if len(self.reading.text) > 3:
            raise ValueError(
                "`text` names more than three columns. Name one for texts with labels, two for pairs, and three for "
                f"pairs with negatives. Received: text={self.reading.text}"
            )
        check_batch_size(self.batch_size, len(self.reading.text), compares_rows=self.loss != "cosine")
        for name, losses in OF_LOSSES.items():
            if getattr(self, name) and self.loss not in losses:
                raise ValueError(
                    f"`{name}` is an option of the loss {' or '.join(losses)}. Give --loss {losses[0]}, or leave out "
                    f"--{name}. Received: loss={self.loss!r}, {name}={getattr(self, name)}"
                )

    def _check_teacher(self) -> None:
        if self.cache_batch is not None and self.teacher is not None:
            raise cached_student(self.cache_batch)
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
        for name in self.distill or ():
            check_choice("distill", name, tuple(field.name for field in dataclasses.fields(Distillation)))
        self.distillation  # noqa: B018 - an error if its values are wrong

    @property
    def distillation(self) -> Distillation | None:
        """What is learned from the teacher, if there is one."""
        return None if self.teacher is None else Distillation(**(self.distill or {}))

    @property
    def recipe(self) -> FinetuneRecipe:
        """How the weights are trained."""
        fields = {field.name for field in dataclasses.fields(FinetuneRecipe)}
        return FinetuneRecipe(**{name: value for name, value in vars(self).items() if name in fields})
