"""Task: what all tasks share. A head on a `Bert`, trained on text and asked in text."""

import dataclasses
import inspect
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert.bert import Bert
from keras_bert.tasks.columns import (
    check_lengths,
    column,
    weights,
)
from keras_bert.tasks.labelled_rows import LabelledRows, packer_of
from keras_bert.tasks.readers import TABLES, Reading, Rows, read_labels, tab_columns
from keras_bert.tasks.signature import Logits, Signature, pack_texts, text_signatures
from keras_bert.tasks.text_trainer import TextTrainer
from keras_bert.text.tokenized_rows import pieces
from keras_bert.weights.heads import assign_head, load_head, load_saved

logger = logging.getLogger("keras_bert")


class Task(TextTrainer):
    """A functional model from the encoder's inputs to logits, which takes text in `fit`, `evaluate` and `predict`.

    `fit(x, y)` takes columns: lists, arrays, columns of pandas or datasets, string tensors. Instead of both it takes a
    tf.data of (x, y); a whole table of pandas or datasets whose columns have the names in `table`; the path of a file
    (a table with the columns text and label, CoNLL, or SQuAD's JSON); or the rows that a reader in `tasks/readers`
    returns. Inputs that are packed already, a dict or a tf.data of dicts, go to Keras as they are. Without `compile`,
    `fit` uses the paper's settings, see `FinetuneRecipe`. `predict` returns logits in the order of the examples.
    `save(path)` and `keras.models.load_model` keep the vocabulary, the labels and every setting.

    `task.bert` is the encoder. After `task.bert.freeze(blocks=6)` or `task.bert.enable_lora(8)`, call `compile` again.

    **A task of your own** is a subclass in any file, registered with `keras.saving.register_keras_serializable`. It has

    - `__init__(self, bert, *, freeze=False, name=None)`, which makes the logits from `bert.output["pooled_output"]` or
      `bert.output["sequence_output"]` and ends in `super().__init__(bert, bert.input, logits, freeze=freeze,
      name=name)`; `get_config` returns its other arguments, if there are any;
    - `default_loss`, unless `y` is the id of a label; `default_metrics` and `target_scores`, if the log is to have more
      than that loss;
    - `decode`, which turns logits into answers, and `answers_in_graph`, which does the same in an export.

    By default a row of `x` is a text, or two where `x` is a tuple of two columns; write `examples` and `signatures` for
    anything else. `report` and `best_score` say how good answers are. The command line uses `command`, `formats`,
    `read_rows`, `from_rows`, `labels_of`, `answers_as_json` and `usage`. `examples/own_task.py` is such a task.

    >>> import keras_bert, tempfile
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = keras_bert.TextClassifier(bert, labels=("negative", "positive"))
    >>> isinstance(task, keras_bert.Task)
    True
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     task.save(f"{folder}/task.keras")
    ...     keras_bert.TextClassifier.load(f"{folder}/task.keras").labels
    ('negative', 'positive')
    >>> task.compile(keras_bert.AdamW(2e-5), task.default_loss(), weighted_metrics=task.default_metrics())
    """

    command: str = ""  # the word on the command line, such as "classify"
    formats: tuple[str, ...] = TABLES  # of files; the first is the default if the suffix does not decide
    reading_fields: tuple[str, ...] = ("format", "text", "label", "separator", "header", "skip_empty")
    usage: str = 'list(task.answers_as_json(["a text"]))'  # a line of Python for the model card
    default_seq_length: int = 128  # of a run of the command line
    labels: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()  # the layers of the head, as weights/tables.py calls them

    def __init__(self, bert: Bert, inputs: Any, logits: Any, *, freeze: bool = False, name: str | None = None) -> None:
        super().__init__(bert, inputs, logits, name=name)
        if freeze:  # not a setting of the task: the encoder knows what is frozen, and can be unfrozen
            bert.freeze()

    # === Rows ===

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        """The tokenized rows of columns, with targets and weights if `y` is given."""
        texts = [column(values) for values in (x if isinstance(x, tuple) else (x,))]
        if len(texts) > 2:
            raise ValueError(
                f"x has {len(texts)} columns, and a row is a text or a pair. Pass one or two columns. "
                f"Received: {len(texts)} columns"
            )
        check_lengths(**dict(zip(("texts", "second_texts"), texts, strict=False)))
        segments = [pieces(self.bert.preprocessor, one) for one in texts]
        return self.with_targets(LabelledRows(segments, packer_of(self.bert)), y, sample_weight, class_weight)

    def with_targets(self, examples: LabelledRows, y: Any, sample_weight: Any, class_weight: Any) -> LabelledRows:
        """The same examples with one target and one weight each, if `y` is given."""
        by_class = self.class_weight_ids(class_weight)
        if y is None:
            return examples
        targets = self._checked_targets(self.target_ids(y))
        check_lengths(x=examples, y=targets)
        weight = weights(sample_weight, len(targets))
        if by_class is not None:
            weight *= np.array([by_class[target] for target in targets.tolist()], "float32")
        return dataclasses.replace(examples, targets=targets, weights=weight)

    def held_out_examples(self, x: Any, y: Any, sample_weight: Any = None) -> LabelledRows:
        """The same for rows that are scored: all of them, those that cannot be learned with weight 0."""
        return self.examples(x, y, sample_weight)

    def target_ids(self, y: Any) -> Any:
        """`y` as numbers, such as label names turned into ids."""
        return y

    def _checked_targets(self, y: Any) -> np.ndarray:
        """The targets as an array that the loss accepts, as far as their type and their shape show it."""
        try:
            targets = np.asarray(y)
        except ValueError:  # lists that differ in length
            targets = np.empty(0, object)
        if targets.dtype.kind not in "biuf":
            raise TypeError(
                f"y is not an array of numbers. Pass numbers, or write {type(self).__name__}.target_ids, which turns y "
                f"into numbers. Received: y[0]={next(iter(y))!r}"
            )
        finite = np.isfinite(targets.reshape(len(targets), -1)).all(axis=1) if len(targets) else np.ones(0, bool)
        if not finite.all():
            row = int(finite.argmin())
            raise ValueError(
                f"y is not a finite number at row {row}. Correct it, or drop the row. Received: {targets[row]}"
            )
        shape = self.output_shape[1:] if isinstance(self.output_shape, tuple) else (None,)
        if not len(targets) or None in shape or (self.compiled and self.recipe is None):  # the user's own loss
            return targets
        if not self._keeps("default_loss"):
            self._check_loss(targets, shape)
        elif (
            targets.shape[1:] not in (shape[:-1], (*shape[:-1], 1))
            or (targets != targets.astype("int64")).any()
            or not 0 <= targets.min() <= targets.max() < shape[-1]
        ):
            raise ValueError(
                f"y is not one label id from 0 to {shape[-1] - 1} for each row, which the loss of a task is for. "
                f"Write {type(self).__name__}.default_loss for other targets. "
                f"Received: y of shape {targets.shape}, from {targets.min()} to {targets.max()}"
            )
        return targets

    def _check_loss(self, targets: np.ndarray, shape: tuple[int, ...]) -> None:
        """Compute the loss of two rows, which shows whether targets and logits fit together."""
        y = targets[:2]
        try:
            keras.losses.get(self.default_loss())(y, np.zeros((len(y), *shape), "float32"))
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(
                f"{type(self).__name__}.default_loss does not accept y with these logits. Correct the shape of y or "
                f"the loss. Received: y of shape {targets.shape}, logits of shape {(len(targets), *shape)}: {reason}"
            ) from error

    @classmethod
    def _keeps(cls, method: str) -> bool:
        """Whether a subclass leaves this method as it is here."""
        return getattr(cls, method) is getattr(Task, method)

    def class_weight_ids(self, class_weight: Any) -> dict[int, float] | None:
        """`class_weight` by label id."""
        if class_weight is not None:
            raise ValueError(
                f"{type(self).__name__} has no single label for each text, which class_weight is for. Give "
                f"sample_weight. Received: class_weight={class_weight!r}"
            )
        return None

    def check_learnable(self, examples: LabelledRows) -> None:
        """Refuse to train if nothing can be learned."""

    # === Loss and scores ===

    def default_loss(self) -> keras.losses.Loss:
        """The right loss for `compile`: the mean over everything that has a weight."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """What `fit` shows if the task was not compiled: accuracy, unless the task has a loss of its own."""
        if self._keeps("default_metrics") and not self._keeps("default_loss"):
            return []
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def target_scores(self, y: Any, logits: Any) -> dict[str, Any]:
        """What `default_metrics` averages, for each target. Training on several devices needs it."""
        if self._keeps("target_scores") and not self._keeps("default_loss"):
            return {}
        return {"accuracy": keras.metrics.sparse_categorical_accuracy(y, logits)}

    @property
    def best_score(self) -> str:
        """The name of the score, in `report` or else in the metrics, by which an epoch of a run is the best."""
        return "accuracy"

    def report(self, y: Any, answers: Any) -> dict[str, float]:
        """The scores of answers, as people report them for such a task; `y` as `fit` takes it."""
        return {}

    def report_logits(
        self, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any
    ) -> dict[str, float]:
        """The report of the answers in these logits."""
        found = self.report(y, self.decode(examples, logits), **options)
        if not isinstance(found, dict):
            raise TypeError(
                f"{type(self).__name__}.report must return the scores by name. Return a dict, such as "
                f'{{"accuracy": 0.9}}. Received: {found!r}'
            )
        return found

    @classmethod
    def report_options(cls, reading: Reading) -> dict[str, Any]:
        """Options of `report` that depend on the file that `y` comes from."""
        return {}

    # === Files and the command line ===

    @staticmethod
    def commands() -> dict[str, type["Task"]]:
        """Every task that has a word on the command line, a user's own included."""
        return {task.command: task for task in _subclasses(Task) if "command" in vars(task)}

    @staticmethod
    def named(command: str) -> type["Task"]:
        """The task with this word on the command line."""
        known = Task.commands()
        if command not in known:
            raise ValueError(
                f"There is no task {command!r}. Use one of {', '.join(sorted(known))}, or import the module that "
                f"defines it. Received: {command!r}"
            )
        return known[command]

    @classmethod
    def read_rows(cls, path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
        """The rows of a file; with labels=False, only what the task is asked."""
        reading.check_format(cls.command, cls.formats)
        label = reading.label if labels else None
        return read_labels(path, reading.texts, label, separator=reading.separator, **reading.table_options)

    @classmethod
    def labels_of(cls, rows: Rows) -> Iterable[tuple[int, str]]:
        """Each label that occurs in training rows, with the number of its row."""
        return ()

    @classmethod
    def check_settings(cls, settings: Any) -> None:
        """Refuse settings of a run that do not fit the task."""
        if settings.cosine:
            raise ValueError(
                "cosine was given for something other than a score of two texts. Use it with the task regress and two "
                f"text columns. Received: {settings.kind} with text={settings.reading.text}"
            )

    @classmethod
    def check_rows(cls, rows: Rows) -> None:
        """Refuse training rows from which nothing can be learned."""
        known = {label for _, label in cls.labels_of(rows)}
        if len(known) == 1:
            raise ValueError(
                f"Every row of {rows.path} has the same label. Add examples of another label, or name the right "
                f"column. Received: {known.pop()!r} in all rows"
            )

    @classmethod
    def from_rows(cls, bert: Bert, rows: Rows, settings: Any) -> "Task":
        """A new task for these training rows and `FinetuneSettings`."""
        return cls(bert)  # type: ignore[call-arg]  # a subclass makes its inputs and logits itself

    def read_lines(self, lines: Sequence[tuple[int, str]], reading: Reading) -> Any:
        """Columns `x` from numbered lines, in which tabs separate the texts of a row."""
        columns = tab_columns(lines, len(reading.text))
        return tuple(columns) if len(columns) > 1 else columns[0]

    def answers_as_json(self, x: Any, batch_size: int = 32) -> Iterator[dict[str, Any]]:
        """The answer to each row of columns, as `keras-bert predict` prints it."""
        examples = self.examples(x)
        for answer in self.decode(examples, self.logits(examples, batch_size)):
            yield self.as_json(answer)

    def as_json(self, answer: Any) -> dict[str, Any]:
        """One answer as an object that JSON can hold."""
        if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
            return dataclasses.asdict(answer)
        if isinstance(answer, dict):
            return answer
        return {"answer": answer.tolist() if isinstance(answer, np.ndarray) else answer}

    # === Answers ===

    def decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[Any]:
        """The answer to each row of `x`, from `logits(examples)`; by default the logits.

        If this needs more than the logits, such as the texts, `examples` puts it into the attribute `decoding`.
        """
        return list(logits)

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        """What the exported task answers: functions in TensorFlow ops, by the names of their signatures.

        By default for tasks whose `x` is a column of texts, or of pairs: `serving_default` and `pair` return what
        `answers_in_graph` returns, and `truncated`.

        logits: runs the exported model on packed rows. seq_length: the longest row.
        """

        def answer(*texts: Any) -> dict[str, Any]:
            rows, truncated = pack_texts(self.bert.preprocessor, texts, seq_length)
            answers = self.answers_in_graph(logits(rows), texts)
            if not isinstance(answers, dict):
                raise TypeError(
                    f"{type(self).__name__}.answers_in_graph must return tensors by name. Return a dict, such as "
                    f'{{"score": tensor}}. Received: {type(answers).__name__}'
                )
            return {**answers, "truncated": truncated}

        return text_signatures(answer)

    def answers_in_graph(self, logits: Any, texts: tuple[Any, ...]) -> dict[str, Any]:
        """Answers by name, each a tensor [B, ...] in TensorFlow ops, to one or two columns of texts."""
        return {"logits": logits}

    # === Saving and loading ===

    def save(self, *args: Any, **options: Any) -> None:
        """As Keras's."""
        if type(self).from_config.__func__ is Task.from_config.__func__:  # type: ignore[attr-defined]
            arguments = inspect.signature(type(self).__init__).parameters.values()
            named = {one.name for one in arguments if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
            if missing := sorted(named - {"self", "freeze", *self.get_config()}):
                raise ValueError(
                    f"get_config of {type(self).__name__} lacks {', '.join(missing)}, and a saved file needs every "
                    f"argument. Add what the constructor accepts to get_config. Received: {', '.join(missing)}"
                )
        super().save(*args, **options)

    @classmethod
    def load(
        cls,
        source: Any,
        *,
        dtype: Any = None,
        seq_length: int | str | None = None,
        cache_dir: str | os.PathLike | None = None,
        local_only: bool = False,
        **settings: Any,
    ) -> "Task":
        """The task with its head, from any format that has one. The arguments are those of `keras_bert.load`.

        settings: arguments of the constructor; the others are as the source has them.
        """
        task = None if settings else load_saved(cls, source, dtype=dtype, seq_length=seq_length)
        if task is None:
            if not cls.heads:
                raise ValueError(
                    f"{cls.__name__} loads only from a .keras file or an export of {cls.__name__}, and this is "
                    f"neither. For a new {cls.__name__} on these weights: {cls.__name__}(keras_bert.load(source), ...)."
                    f" Received: {source!r}"
                )
            places: Any = {"cache_dir": cache_dir, "local_only": local_only}
            checkpoint, bert = load_head(source, cls.heads, dtype=dtype, seq_length=seq_length or 128, **places)
            task = cls(bert, **{**cls.settings(checkpoint.heads[cls.heads[0]]), **settings})
            assign_head(task, checkpoint)
        return task

    @classmethod
    def settings(cls, head: Any) -> dict[str, Any]:
        """The arguments of the constructor that a stored head decides."""
        return {}


def as_batch(texts: Any) -> tuple[Any, bool]:
    """Columns, and whether a single text or pair was given instead of columns."""
    if texts is None:
        raise TypeError("The text is missing. Pass a text, a pair as a tuple, or columns of them. Received: None")
    if isinstance(texts, str):
        return [texts], True
    if isinstance(texts, tuple) and texts and isinstance(texts[0], str):
        return tuple([text] for text in texts), True
    return texts, False


def _subclasses(task: type[Task]) -> Iterator[type[Task]]:
    for subclass in task.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
