"""Task: what all tasks share. A head on a `Bert`, trained on and asked in the user's own words."""

import contextlib
import logging
import os
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.model import HeadedModel
from keras_bert.tasks.columns import columns_of, count_of, is_packed, is_table, split_columns, table_columns
from keras_bert.tasks.examples import Epoch, Examples
from keras_bert.tasks.finetune_recipe import Recipe, has_recipe, needs_recipe, steps_of
from keras_bert.tasks.readers import Reading, Rows, read
from keras_bert.training.measures import Measure
from keras_bert.weights.heads import assign_head, load_head, load_saved


class Task(HeadedModel):
    """A functional model from the encoder's inputs to logits, which takes text in `fit`, `evaluate` and `predict`.

    `fit(x, y)` takes columns: lists, arrays, columns of pandas or datasets, string tensors. In place of both, a tf.data
    of (x, y); a whole table of pandas or datasets whose columns have the names of `table`; the path of a file, of
    columns text and label, CoNLL or SQuAD's JSON; or what a reader of `tasks/readers` makes of one. Inputs that are
    packed already, a dict or a tf.data of dicts, go to Keras as they are. Without `compile` it trains as in the paper,
    see `Recipe`. `predict` gives logits in the order of the examples. `save(path)` and `keras.models.load_model` keep
    the vocabulary, the labels and every setting.

    `task.bert` is the encoder: `task.bert.freeze(blocks=6)` or `task.bert.enable_lora(8)`, and `compile` after.

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

    heads: tuple[str, ...] = ()  # the layers of the head, as weights/tables.py calls them
    table: tuple[tuple[str, ...], str] = (("text",), "label")  # the columns x and y of a table
    example_ranks: tuple[int, ...] = (0,)  # of the first tensor of x in one example of a tf.data
    length_axis: int | None = None  # of an example's logits, where they are of tokens

    def __init__(self, bert: Bert, inputs: Any, logits: Any, *, freeze: bool, name: str | None) -> None:
        super().__init__(bert, inputs, logits, name=name)
        if freeze:  # no setting of the task: the encoder keeps what is frozen, and may be unfrozen later
            bert.freeze()

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(inputs, dict):
            raise TypeError(
                f"A task takes a dict of {', '.join(self.input)}. For text, use predict(x) or the method that answers. "
                f"Received: {type(inputs).__name__}"
            )
        return super().__call__(inputs, *args, **kwargs)

    # === What a kind of task tells ===

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> Examples:
        """The tokenized examples of columns, with what is to be learned of them where `y` is given."""
        raise NotImplementedError

    def default_loss(self) -> keras.losses.Loss:
        """The right loss for `compile`: a mean over all that has a weight."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """What `fit` shows where the task was not compiled."""
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def scores(self, y: Any, logits: Any) -> dict[str, Any]:
        """What `default_metrics` averages, of each target."""
        return {"accuracy": keras.metrics.sparse_categorical_accuracy(y, logits)}

    def check_learnable(self, examples: Examples) -> None:
        """Refuse to train where nothing can be learned."""

    def target_ids(self, y: Any) -> Any:
        """`y` beside inputs that are packed already, label names turned to ids."""
        return y

    def _class_weight_ids(self, class_weight: Any) -> Any:
        """`class_weight` beside inputs that are packed already, label names turned to ids."""
        if class_weight is not None:
            raise ValueError("class_weight is for one label a text. Give sample_weight. Received: class_weight")
        return None

    # === Training ===

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
        recipe: Recipe | None = None,
        **options: Any,
    ) -> keras.callbacks.History:
        """As Keras's, on text.

        class_weight: by label name or id. seed: of the order of the examples, which is another one in each epoch.
        epochs: 3 without `compile`, else Keras's 1. batch_size: 32. recipe: compile by it, with its values in place of
        the paper's. validation_data: without `compile` the log of an epoch also has what is reported of such a task,
        val_spearman, val_entity_f1, val_exact_match and so on; with it, the metrics are yours, and the callback
        `keras_bert.tasks.metrics.scores.Scores(x, y)` adds these.
        """
        by_recipe = needs_recipe(self, initial_epoch) or (recipe is not None and initial_epoch == 0)
        level = logging.INFO if recipe else logging.WARNING  # nobody asked for the paper's
        recipe = recipe or Recipe()
        epochs = count_of("epochs", epochs, recipe.epochs if by_recipe else 1)
        rows = count_of("batch_size", batch_size, recipe.batch_size)
        options |= {"epochs": epochs, "verbose": verbose, "initial_epoch": initial_epoch}
        if isinstance(validation_data, tuple | list) and is_packed(tuple(validation_data)):
            held_out, *given = validation_data
            validation_data = (held_out, *map(self.target_ids, given[:1]), *given[1:])
        steps: int | None = options.get("steps_per_epoch")
        if is_packed(x):
            class_weight = self._class_weight_ids(class_weight)
            if by_recipe:
                self._compile(recipe, epochs * (steps or steps_of(x, rows, validation_split)), level)
            options |= {"validation_split": validation_split, "validation_data": validation_data}
            options |= {"class_weight": class_weight, "sample_weight": sample_weight, "callbacks": callbacks}
            options["shuffle"] = shuffle and isinstance(x, dict)
            return super().fit(x, self.target_ids(y), batch_size, **options)

        columns: Any = self._columns(x, y, sample_weight)
        if validation_split and validation_data is None:
            columns, validation_data = split_columns(columns, validation_split)
        examples = self._labelled(columns, class_weight)
        self.check_learnable(examples)
        if by_recipe:
            self._compile(recipe, epochs * (steps or -(-len(examples) // rows)), level)
        callbacks = [callbacks] if isinstance(callbacks, keras.callbacks.Callback) else list(callbacks or ())
        if validation_data is not None and not is_packed(validation_data):
            validation = validation_data if isinstance(validation_data, tuple | list) else (validation_data,)
            held_out = self._columns(*validation)
            validation_data = self._labelled(held_out)
            if has_recipe(self):
                from keras_bert.tasks.metrics.scores import Scores

                if not any(isinstance(callback, Scores) for callback in callbacks):
                    callbacks.insert(0, Scores(*held_out[:2], with_validation=True, batch_size=rows))
        if self._is_distributed:
            from keras_bert.tasks import fit_distributed as distributed

            if not isinstance(validation_data, Examples | None):
                raise ValueError("On several devices text is validated on text. Received: packed validation_data")
            options |= {"batch_size": rows, "callbacks": callbacks, "seed": seed if shuffle else None}
            return distributed.fit(self, examples, validation_data, **options)
        if isinstance(validation_data, Examples):
            validation_data = validation_data.batches(rows)[1]
        if shuffle:
            epoch = Epoch(initial_epoch)
            callbacks.insert(0, epoch)
            batches = examples.shuffled(rows, seed=seed, epoch=epoch.number)
        else:
            batches = examples.batches(rows, by_length=False)[1]
        return super().fit(batches, callbacks=callbacks, validation_data=validation_data, shuffle=False, **options)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        **options: Any,
    ) -> Any:
        """As Keras's, on text; with `return_dict` also what is reported of such a task: F1, Spearman, exact match...

        Sample weights weigh the compiled metrics alone. Where both have a name, the value is the compiled metric's.
        """
        if not self.compiled:
            self._compile(Recipe(), steps=1, level=logging.DEBUG)  # as the recipe, so that a later fit begins with it
        if is_packed(x):
            options["sample_weight"] = sample_weight
            return super().evaluate(x, self.target_ids(y), batch_size, verbose, **options)
        columns = self._columns(x, y, sample_weight)
        examples = self._labelled(columns)
        rows = count_of("batch_size", batch_size, 32)
        if self._is_distributed:
            from keras_bert.tasks import fit_distributed as distributed

            _refuse({name: value for name, value in options.items() if name != "return_dict"}, "On several devices")
            means: Any = distributed.evaluate(self, examples, rows)
            means = means if options.get("return_dict") else list(means.values())
        else:
            means = super().evaluate(examples.batches(rows)[1], verbose=verbose, **options)
        if not options.get("return_dict"):
            return means
        from keras_bert.tasks.metrics.scores import scores

        return scores(self, *columns[:2], batch_size=rows) | means

    @property
    def objective(self) -> tuple[str, ...]:
        """The measures whose means add up to the loss."""
        return ("loss",)

    def measures(self, batch: Any, training: bool = False) -> dict[str, Measure]:
        """The loss and the scores of a batch `(x, y, sample_weight)`, as totals and what to divide them by."""
        x, y, weight = batch
        logits = self(x, training=training)
        loss = keras.losses.get(self.loss) if self.compiled and self.loss else self.default_loss()
        values = {"loss": loss.call(y, logits) if isinstance(loss, keras.losses.Loss) else loss(y, logits)}
        values |= self.scores(y, logits)
        return {name: _weighted(ops.cast(value, "float32"), weight) for name, value in values.items()}

    def _compile(self, recipe: Recipe, steps: int, level: int) -> None:
        with self.distribute_strategy.scope() if self._is_distributed else contextlib.nullcontext():
            recipe.compile(self, steps, level)

    @property
    def _is_distributed(self) -> bool:
        """Whether this task was built under a strategy of several devices or for a TPU."""
        if keras.backend.backend() != "tensorflow":
            return False
        import tensorflow as tf

        strategy = self.distribute_strategy
        return strategy.num_replicas_in_sync > 1 or isinstance(strategy, tf.distribute.TPUStrategy)

    def _columns(self, x: Any, *given: Any, labels: bool = True) -> tuple[Any, Any, Any]:
        if isinstance(x, str | os.PathLike):
            from keras_bert.tasks.run.kinds import kind_of

            if not os.path.isfile(x):
                raise FileNotFoundError(
                    f"A string in place of a column is the path of a file. Put one text in a list. Received: {x!r}"
                )

            x = read(kind_of(self), x, Reading(), labels=labels)
        if isinstance(x, Rows) or is_table(x):
            if given and given[0] is not None:
                raise ValueError("A table has its own labels. Give y beside columns alone. Received: a table and y")
            texts, label = self.table
            x, y = (x.x, x.y) if isinstance(x, Rows) else table_columns(x, texts, label if labels else None)
            given = (y if labels else None, *given[1:])
        return columns_of(x, *given, ranks=self.example_ranks)

    def _labelled(self, columns: Any, class_weight: Any = None) -> Examples:
        x, y, sample_weight = columns
        if y is None:
            raise ValueError(f"{type(self).__name__} needs y: what is to be learned of each example. Received: y=None")
        examples = self.examples(x, y, sample_weight, class_weight)
        examples.warn_of_cuts()
        return examples

    # === Prediction ===

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", **options: Any) -> Any:
        """Logits in the order of the examples; of tokens, 0 behind the end of a row."""
        if is_packed(x):
            return super().predict(x, batch_size, verbose, **options)
        _refuse(options, "On text")
        rows = count_of("batch_size", batch_size, 32)
        logits = self.logits(self.examples(self._columns(x, labels=False)[0]), rows)
        if self.length_axis is not None:
            longest = max(row.shape[self.length_axis] for row in logits)
            logits = [_padded(row, self.length_axis, longest) for row in logits]
        return np.stack(logits)

    def logits(self, examples: Examples, batch_size: int = 32) -> list[np.ndarray]:
        """The logits of each example, in their order; of tokens, as long as the batch that it was in."""
        import tensorflow as tf

        count_of("batch_size", batch_size, 32)
        examples.warn_of_cuts()
        found: list[Any] = [None] * len(examples)
        if 0 < len(examples) <= batch_size:  # a pipeline takes longer to build than a batch to pack
            index, batches = [np.arange(len(examples))], [examples.pack(tf.range(len(examples)))]
        else:
            index, batches = examples.batches(batch_size)
        for rows, batch in zip(index, batches, strict=True):
            for row, logits in zip(rows, self._run(batch), strict=True):
                found[row] = logits
        return found

    def _run(self, x: dict[str, Any]) -> np.ndarray:
        if keras.backend.backend() == "tensorflow":
            return self._graph()(x).numpy()
        # Powers of two, since the other backends compile for each number of rows.
        count = len(x["input_mask"])
        more = (1 << (count - 1).bit_length()) - count
        filled = {name: np.concatenate([value, np.repeat(value[:1], more, axis=0)]) for name, value in x.items()}
        return np.asarray(self.predict_on_batch(filled))[:count]

    def _graph(self) -> Any:
        """One trace for batches of any shape; a new one once `quantize` or `enable_lora` changed the variables."""
        import tensorflow as tf

        variables = tuple(map(id, self.variables))
        kept = self.__dict__.get("_kept_graph")
        if kept is None or kept[0] != variables:
            signature = {name: tf.TensorSpec(tensor.shape, tf.int32) for name, tensor in self.input.items()}
            graph = tf.function(lambda x: self(x, training=False), input_signature=[signature])
            kept = (variables, graph)
            object.__setattr__(self, "_kept_graph", kept)
        return kept[1]

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
        """The task with its head out of any format that has one; the arguments are those of `keras_bert.load`.

        settings: arguments of the constructor; those not given are as the source has them.
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
        """Arguments of the constructor that a stored head tells."""
        return {}


def as_batch(texts: Any) -> tuple[Any, bool]:
    """Columns, and whether there was but one text (or one pair) and no column."""
    if isinstance(texts, str):
        return [texts], True
    if isinstance(texts, tuple) and texts and isinstance(texts[0], str):
        return tuple([text] for text in texts), True
    return texts, False


def _refuse(options: dict[str, Any], where: str) -> None:
    if options:
        raise TypeError(f"{where} all examples are gone through once. Leave out what came: {', '.join(options)}")


def _weighted(values: Any, weight: Any) -> Measure:
    if len(values.shape) > len(weight.shape):  # a value for each label of a text
        values = ops.mean(values, axis=-1)
    return Measure(ops.sum(values * weight), ops.sum(weight))


def _padded(row: np.ndarray, axis: int, length: int) -> np.ndarray:
    widths = [(0, 0)] * row.ndim
    widths[axis] = (0, length - row.shape[axis])
    return np.pad(row, widths)
