"""Task: what all tasks share. A head on a `Bert`, trained on text and asked in text."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.model import HeadedModel
from keras_bert.tasks.columns import (
    check_lengths,
    column,
    columns_of,
    count_of,
    is_packed,
    is_table,
    part_of,
    split_columns,
    table_columns,
    weights,
)
from keras_bert.tasks.finetune_recipe import FinetuneRecipe, steps_of
from keras_bert.tasks.labelled_rows import Epoch, LabelledRows, packer_of
from keras_bert.tasks.metrics.scores import Scores
from keras_bert.tasks.readers import TABLES, Reading, Rows, read_labels, tab_columns
from keras_bert.tasks.signature import Logits, Signature, pack_texts, text_signatures
from keras_bert.tasks.validation import Validation
from keras_bert.text.tokenized_rows import pieces
from keras_bert.training.measure import Measure
from keras_bert.weights.heads import assign_head, load_head, load_saved

logger = logging.getLogger("keras_bert")


class Task(HeadedModel):
    """A functional model from the encoder's inputs to logits, which takes text in `fit`, `evaluate` and `predict`.

    `fit(x, y)` takes columns: lists, arrays, columns of pandas or datasets, string tensors. Instead of both it takes a
    tf.data of (x, y); a whole table of pandas or datasets whose columns have the names in `table`; the path of a file
    (a table with the columns text and label, CoNLL, or SQuAD's JSON); or the rows that a reader in `tasks/readers`
    returns. Inputs that are packed already, a dict or a tf.data of dicts, go to Keras as they are. Without `compile`,
    `fit` uses the paper's settings, see `FinetuneRecipe`. `predict` returns logits in the order of the examples.
    `save(path)` and `keras.models.load_model` keep the vocabulary, the labels and every setting.

    `task.bert` is the encoder. After `task.bert.freeze(blocks=6)` or `task.bert.enable_lora(8)`, call `compile` again.

    **A task of your own** is a subclass in any file, registered with `keras.saving.register_keras_serializable`. It has

    - `__init__`, which makes the logits from `bert.output["pooled_output"]` or `bert.output["sequence_output"]`, ends in
      `super().__init__(bert, bert.input, logits, freeze=freeze, name=name)`, and has its other arguments in `get_config`;
    - `default_loss` and `default_metrics`, unless `y` is the id of a label;
    - `decode`, which turns logits into answers, and `answers_in_graph`, which does the same in an export.

    By default a row of `x` is a text, or two where `x` is a tuple of two columns; write `examples` and `signatures` for
    anything else. `report` and `best_score` say how good answers are. The command line uses `command`, `formats`,
    `read_rows`, `from_rows`, `labels_of`, `answers_as_json` and `usage`. `examples/own_task.py` is such a task.

    >>> import keras_bert, tempfile
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = keras_bert.TextClassifier(bert, labels=("negative", "positive"))
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
    table: tuple[tuple[str, ...], str] = (("text",), "label")  # the columns x and y of a table
    example_ranks: tuple[int, ...] = (0,)  # the ranks of the first tensor of x in an element of a tf.data
    length_axis: int | None = None  # the axis of an example's logits that is as long as its row, if there is one
    recipe: FinetuneRecipe | None = None  # what `fit` compiled the task with; None if the user compiled it

    def __init__(self, bert: Bert, inputs: Any, logits: Any, *, freeze: bool = False, name: str | None = None) -> None:
        super().__init__(bert, inputs, logits, name=name)
        if freeze:  # not a setting of the task: the encoder knows what is frozen, and can be unfrozen
            bert.freeze()

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(inputs, dict):
            raise TypeError(
                f"{type(self).__name__} was called on something other than packed inputs. Call it on a dict of "
                f"{', '.join(self.input)}; for text, use predict(x) or the method that answers. "
                f"Received: {type(inputs).__name__}"
            )
        return super().__call__(inputs, *args, **kwargs)

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
        targets = np.asarray(self.target_ids(y))
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

    def class_weight_ids(self, class_weight: Any) -> dict[int, float] | None:
        """`class_weight` by label id."""
        if class_weight is not None:
            raise ValueError(
                f"{type(self).__name__} has no single label for each text, which class_weight is for. Give sample_weight. "
                f"Received: class_weight={class_weight!r}"
            )
        return None

    def check_learnable(self, examples: LabelledRows) -> None:
        """Refuse to train if nothing can be learned."""

    # === Loss and scores ===

    def default_loss(self) -> keras.losses.Loss:
        """The right loss for `compile`: the mean over everything that has a weight."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """What `fit` shows if the task was not compiled."""
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def target_scores(self, y: Any, logits: Any) -> dict[str, Any]:
        """What `default_metrics` averages, for each target. Training on several devices needs it."""
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
        return self.report(y, self.decode(examples, logits), **options)

    @classmethod
    def report_options(cls, reading: Reading) -> dict[str, Any]:
        """Options of `report` that depend on the file that `y` comes from."""
        return {}

    # === Files and the command line ===

    @staticmethod
    def commands() -> dict[str, type["Task"]]:
        """Every task that has a word on the command line, a user's own included."""
        return {task.command: task for task in _subclasses(Task) if vars(task).get("command")}

    @staticmethod
    def named(command: str) -> type["Task"]:
        """The task with this word on the command line."""
        known = Task.commands()
        if command not in known:
            raise ValueError(
                f"There is no task {command!r}. Use one of {', '.join(sorted(known))}, or import the module that defines "
                f"it. Received: {command!r}"
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
                f"Every row of {rows.path} has the same label. Add examples of another label, or name the right column. "
                f"Received: {known.pop()!r} in all rows"
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

    # === Training ===

    def compile(self, *args: Any, **options: Any) -> None:
        """As Keras's."""
        self.recipe = None
        super().compile(*args, **options)

    def get_compile_config(self) -> dict[str, Any]:
        config = super().get_compile_config()
        return config | {"recipe": dataclasses.asdict(self.recipe)} if config and self.recipe else config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        config = dict(config)
        recipe = config.pop("recipe", None)
        options = keras.saving.deserialize_keras_object(config)
        self.compile(**options)
        if recipe is not None:
            self.recipe = FinetuneRecipe(**recipe)
        elif _inner(self.optimizer).name == "paper_finetuning":  # how files of earlier versions say it
            self.recipe = FinetuneRecipe()
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int | None = None,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        *,
        seed: int = 0,
        recipe: FinetuneRecipe | None = None,
        **options: Any,
    ) -> keras.callbacks.History:
        """As Keras's, on text.

        Args:
            batch_size: 32 by default.
            epochs: 3 by default without `compile`, otherwise 1 as in Keras.
            validation_data: columns or a table, tokenized once and read once in an epoch. The log has the loss and the
                metrics of it, and without `compile` also the scores that the task reports: val_spearman, val_entity_f1,
                val_exact_match and so on. With `compile` the callback `keras_bert.tasks.metrics.scores.Scores(x, y)`
                adds them.
            class_weight: by label name or id.
            seed: of the order of the examples, which changes in each epoch.
            recipe: compile with this recipe instead of the paper's.
        """
        # A compile by `fit` itself is repeated, unless training resumes.
        by_recipe = not self.compiled or (initial_epoch == 0 and (self.recipe or recipe) is not None)
        level = logging.INFO if recipe else logging.WARNING  # nobody asked for the paper's recipe
        recipe = recipe or FinetuneRecipe()
        epochs = count_of("epochs", epochs, recipe.epochs if by_recipe else 1)
        rows = count_of("batch_size", batch_size, recipe.batch_size)
        options |= {"epochs": epochs, "verbose": verbose, "initial_epoch": initial_epoch}
        if isinstance(validation_data, tuple | list) and is_packed(tuple(validation_data)):
            held_out, *given = validation_data
            validation_data = (held_out, *map(self.target_ids, given[:1]), *given[1:])
        steps: int | None = options.get("steps_per_epoch")
        if is_packed(x):
            class_weight = self.class_weight_ids(class_weight)
            if by_recipe:
                self._compile_by(recipe, epochs * (steps or steps_of(x, rows, validation_split)), level)
            options |= {"validation_split": validation_split, "validation_data": validation_data}
            options |= {"class_weight": class_weight, "sample_weight": sample_weight, "callbacks": callbacks}
            options["shuffle"] = shuffle and isinstance(x, dict)
            return super().fit(x, self.target_ids(y), batch_size, **options)

        columns: Any = self._columns(x, y, sample_weight)
        if validation_split and validation_data is None:
            columns, validation_data = split_columns(columns, validation_split)
        examples = self.labelled_examples(columns, class_weight)
        self.check_learnable(examples)
        if by_recipe:
            self._compile_by(recipe, epochs * (steps or -(-len(examples) // rows)), level)
        callbacks = [callbacks] if isinstance(callbacks, keras.callbacks.Callback) else list(callbacks or ())
        if validation_data is not None and not is_packed(validation_data):
            callbacks.insert(0, self._validation(validation_data, rows, callbacks, options))
            validation_data = None
        if self.is_distributed:
            from keras_bert.tasks import fit_distributed as distributed

            if validation_data is not None:
                raise ValueError(
                    "validation_data is packed, and training on several devices validates on text. Pass texts. "
                    f"Received: {type(validation_data).__name__}"
                )
            options |= {"batch_size": rows, "callbacks": callbacks, "seed": seed if shuffle else None}
            return distributed.fit(self, examples, **options)
        if shuffle:
            epoch = Epoch(initial_epoch)
            callbacks.insert(0, epoch)
            batches = examples.shuffled(rows, seed=seed, epoch=epoch.number)
        else:
            batches = examples.batches(rows, by_length=False)[1]
        return super().fit(batches, callbacks=callbacks, validation_data=validation_data, shuffle=False, **options)

    def _validation(self, data: Any, rows: int, callbacks: list[Any], options: dict[str, Any]) -> Validation:
        """The callback that validates on text, by those of Keras's options that are about validation."""
        columns = self._columns(*(data if isinstance(data, tuple | list) else (data,)))
        rows = options.pop("validation_batch_size", None) or rows
        if steps := options.pop("validation_steps", None):
            columns = part_of(columns, slice(steps * rows))
        # The scores of a task that the user compiled, or of the user's own callback, are the user's choice.
        scored = self.recipe is not None and not any(isinstance(callback, Scores) for callback in callbacks)
        frequency = options.pop("validation_freq", 1)
        validation = Validation(
            *columns, batch_size=rows, frequency=frequency, scored=scored, callbacks=list(callbacks)
        )
        validation.prepare(self)
        return validation

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        **options: Any,
    ) -> Any:
        """As Keras's, on text. With `return_dict` also the scores that the task reports: F1, Spearman, exact match...

        The values do not depend on the batch size. Sample weights weigh only the loss and the metrics. Where a metric
        and a score have the same name, the value is the metric's.
        """
        if not self.compiled:
            self._compile_by(FinetuneRecipe(), steps=1, level=logging.DEBUG)  # so that a later fit compiles again
        if is_packed(x):
            options["sample_weight"] = sample_weight
            return super().evaluate(x, self.target_ids(y), batch_size, verbose, **options)
        columns = self._columns(x, y, sample_weight)
        rows = count_of("batch_size", batch_size, 32)
        by_name = options.pop("return_dict", False)
        if self.is_distributed:
            _refuse(options, "On several devices")
        if (steps := options.pop("steps", None)) is not None:
            columns = part_of(columns, slice(steps * rows))
        given = options.pop("callbacks", None)
        _refuse(options, "On text")
        callbacks = keras.callbacks.CallbackList(
            given, add_progbar=verbose != 0, model=self, verbose=verbose, epochs=1, steps=1
        )
        validation = Validation(*columns, batch_size=rows, scored=by_name, callbacks=[callbacks])
        validation.prepare(self)
        means, scores = validation.validate()
        if by_name:
            return scores | means
        values = list(means.values())
        return values if len(values) > 1 else values[0]

    @property
    def objective(self) -> tuple[str, ...]:
        """The measures whose means add up to the loss."""
        return ("loss",)

    def measures(self, batch: Any, training: bool = False) -> dict[str, Measure]:
        """The loss and the target scores of a batch `(x, y, sample_weight)`, as totals and what to divide them by."""
        x, y, weight = batch
        return self.measures_of(y, self(x, training=training), weight)

    def measures_of(self, y: Any, logits: Any, weight: Any) -> dict[str, Measure]:
        """The same from logits."""
        loss = keras.losses.get(self.loss) if self.compiled and self.loss else self.default_loss()
        values = {"loss": loss.call(y, logits) if isinstance(loss, keras.losses.Loss) else loss(y, logits)}
        values |= self.target_scores(y, logits)
        return {name: _weighted(ops.cast(value, "float32"), weight) for name, value in values.items()}

    def _compile_by(self, recipe: FinetuneRecipe, steps: int, level: int) -> None:
        """Compile for a run of this many steps, and log it at this level."""
        logger.log(level, recipe.describe(type(self).__name__, steps))
        with self.distribute_strategy.scope() if self.is_distributed else contextlib.nullcontext():
            # XLA would compile again for each length of a batch, and compute the padding.
            jit_compile = False if keras.backend.backend() == "tensorflow" else "auto"
            loss, metrics = self.default_loss(), self.default_metrics()
            self.compile(recipe.optimizer(steps), loss, weighted_metrics=metrics, jit_compile=jit_compile)
        self.recipe = recipe

    @property
    def is_distributed(self) -> bool:
        """Whether this task was built under a strategy of several devices or for a TPU."""
        if keras.backend.backend() != "tensorflow":
            return False
        import tensorflow as tf

        strategy = self.distribute_strategy
        return strategy.num_replicas_in_sync > 1 or isinstance(strategy, tf.distribute.TPUStrategy)

    def _columns(self, x: Any, *given: Any, labels: bool = True) -> tuple[Any, Any, Any]:
        if isinstance(x, str | os.PathLike):
            if not os.path.isfile(x):
                raise FileNotFoundError(
                    "x is a string, which is the path of a file, and there is no such file. Put a single text in a list. "
                    f"Received: x={x!r}"
                )
            x = self.read_rows(x, Reading(), labels=labels)
        if isinstance(x, Rows) or is_table(x):
            if given and given[0] is not None:
                raise ValueError(
                    "y was passed with a table, which has its own labels. Leave y out, or pass columns. "
                    "Received: a table and y"
                )
            texts, label = self.table
            x, y = (x.x, x.y) if isinstance(x, Rows) else table_columns(x, texts, label if labels else None)
            given = (y if labels else None, *given[1:])
        return columns_of(x, *given, ranks=self.example_ranks)

    def labelled_examples(self, columns: Any, class_weight: Any = None, *, held_out: bool = False) -> LabelledRows:
        """The examples of columns x, y and sample_weight, to learn from or to be scored."""
        x, y, sample_weight = columns
        if y is None:
            raise ValueError(
                f"y is missing. {type(self).__name__} needs a target for each row to train and to evaluate. "
                "Received: y=None"
            )
        if held_out:
            examples = self.held_out_examples(x, y, sample_weight)
        else:
            examples = self.examples(x, y, sample_weight, class_weight)
        if not len(examples):
            raise ValueError("There are no rows. Pass at least one. Received: empty columns")
        examples.warn_of_cuts()
        return examples

    # === Prediction ===

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", **options: Any) -> Any:
        """Logits in the order of the examples; for tokens, 0 after the end of a row."""
        if is_packed(x):
            return super().predict(x, batch_size, verbose, **options)
        _refuse(options, "On text")
        rows = count_of("batch_size", batch_size, 32)
        logits = self.logits(self.examples(self._columns(x, labels=False)[0]), rows)
        return self.stack_logits(logits) if logits else np.zeros([size or 0 for size in self.output_shape], "float32")

    def stack_logits(self, logits: list[np.ndarray]) -> np.ndarray:
        """The logits of examples as one array; for tokens, padded with 0 to the longest row."""
        if self.length_axis is not None:
            longest = max(row.shape[self.length_axis] for row in logits)
            logits = [_padded(row, self.length_axis, longest) for row in logits]
        return np.stack(logits)

    def logits(self, examples: LabelledRows, batch_size: int = 32) -> list[np.ndarray]:
        """The logits of each example, in their order; of tokens, as long as the batch that it was in."""
        count_of("batch_size", batch_size, 32)
        examples.warn_of_cuts()
        run = self.runners.get("logits", self, lambda: self)
        found: list[Any] = [None] * len(examples)
        for index in examples.by_length(batch_size):
            for number, logits in zip(index, run(examples, index), strict=True):
                found[number] = logits
        return found

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
            return {**self.answers_in_graph(logits(rows), texts), "truncated": truncated}

        return text_signatures(answer)

    def answers_in_graph(self, logits: Any, texts: tuple[Any, ...]) -> dict[str, Any]:
        """Answers by name, each a tensor [B, ...] in TensorFlow ops, to one or two columns of texts."""
        return {"logits": logits}

    # === Loading ===

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
    if isinstance(texts, str):
        return [texts], True
    if isinstance(texts, tuple) and texts and isinstance(texts[0], str):
        return tuple([text] for text in texts), True
    return texts, False


def _subclasses(kind: type) -> Iterator[type]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _inner(optimizer: Any) -> Any:
    """The optimizer inside the one that scales the loss, if there is one."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _refuse(options: dict[str, Any], where: str) -> None:
    if options:
        raise TypeError(
            f"{where} every row is read once, and {', '.join(options)} cannot be used. Leave it out. "
            f"Received: {', '.join(options)}"
        )


def _weighted(values: Any, weight: Any) -> Measure:
    if len(values.shape) > len(weight.shape):  # a value for each label of a text: their mean
        values = ops.mean(values, axis=-1)
    return Measure(ops.sum(values * weight), ops.sum(weight))


def _padded(row: np.ndarray, axis: int, length: int) -> np.ndarray:
    widths = [(0, 0)] * row.ndim
    widths[axis] = (0, length - row.shape[axis])
    return np.pad(row, widths)
