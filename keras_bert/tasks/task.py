"""Task: what all tasks share. A head on a `Bert`, trained on and asked in the user's own words."""

import os
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.layers.dense import dense
from keras_bert.layers.plain import Plain
from keras_bert.saving import changed_layers, restore_layers
from keras_bert.tasks.columns import columns_of, is_packed, split_columns
from keras_bert.tasks.examples import Examples
from keras_bert.tasks.finetuning import Recipe, needs_recipe


class Task(keras.Model):
    """A functional model from the encoder's inputs to logits, which takes text in `fit`, `evaluate` and `predict`.

    `fit(x, y)` takes columns: lists, arrays, columns of pandas or datasets, string tensors, or a tf.data of (x, y).
    Inputs that are packed already, a dict or a tf.data of dicts, go to Keras as they are. Without `compile` it trains
    as in the paper, see `Recipe`. `predict` gives logits in the order of the examples. `save(path)` and
    `keras.models.load_model` keep the vocabulary, the labels and every setting.

    `task.bert` is the encoder: `task.bert.freeze(blocks=6)` or `task.bert.enable_lora(8)`, and `compile` after.
    """

    heads: tuple[str, ...] = ()  # the layers of the head, as weights/names.py calls them
    example_ranks: tuple[int, ...] = (0,)  # of the first tensor of x in one example of a tf.data
    length_axis: int | None = None  # of an example's logits, where they are of tokens

    def __init__(self, bert: Bert, inputs: Any, logits: Any, *, freeze: bool, name: str | None) -> None:
        super().__init__(inputs=inputs, outputs=logits, name=name)
        # Past Keras's tracking: its layers are nodes of this model, but for a pooler that the head has no use for.
        object.__setattr__(self, "bert", bert)
        self.dtype_policy = bert.dtype_policy
        if freeze:  # no setting of the task: the encoder keeps what is frozen, and may be unfrozen later
            bert.freeze()

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

    def target_ids(self, y: Any) -> Any:
        """`y` beside inputs that are packed already, label names turned to ids."""
        return y

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
        **options: Any,
    ) -> keras.callbacks.History:
        """As Keras's, on text.

        class_weight: by label name or id. seed: of the order of the examples, which is another one in each epoch.
        epochs: 3 without `compile`, else Keras's 1. batch_size: 32.
        """
        recipe, by_recipe = Recipe(), needs_recipe(self, initial_epoch)
        epochs = epochs or (recipe.epochs if by_recipe else 1)
        options |= {"epochs": epochs, "verbose": verbose, "initial_epoch": initial_epoch}
        if is_packed(x):
            if by_recipe:
                recipe.compile(self, epochs * _steps(x, batch_size or recipe.batch_size, validation_split))
            options |= {"validation_split": validation_split, "validation_data": validation_data}
            options |= {"class_weight": class_weight, "sample_weight": sample_weight, "callbacks": callbacks}
            options["shuffle"] = shuffle and isinstance(x, dict)
            return super().fit(x, self.target_ids(y), batch_size, **options)

        columns: Any = self._columns(x, y, sample_weight)
        if validation_split and validation_data is None:
            columns, validation_data = split_columns(columns, validation_split)
        examples = self._labelled(columns, class_weight)
        batch_size = batch_size or recipe.batch_size
        if by_recipe:
            recipe.compile(self, epochs * -(-len(examples) // batch_size))
        if validation_data is not None and not is_packed(validation_data):
            validation = validation_data if isinstance(validation_data, tuple | list) else (validation_data,)
            validation_data = self._labelled(self._columns(*validation)).batches(batch_size)[1]
        callbacks = [callbacks] if isinstance(callbacks, keras.callbacks.Callback) else list(callbacks or ())
        if shuffle:
            epoch = _Epoch(initial_epoch)
            callbacks.insert(0, epoch)
            batches = examples.shuffled(batch_size, seed=seed, epoch=epoch.number)
        else:
            batches = examples.batches(batch_size)[1]
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
        """As Keras's, on text."""
        if not self.compiled:
            self.compile(loss=self.default_loss(), weighted_metrics=self.default_metrics())
        if is_packed(x):
            options["sample_weight"] = sample_weight
            return super().evaluate(x, self.target_ids(y), batch_size, verbose, **options)
        examples = self._labelled(self._columns(x, y, sample_weight))
        return super().evaluate(examples.batches(batch_size or 32)[1], verbose=verbose, **options)

    def _columns(self, *given: Any) -> tuple[Any, Any, Any]:
        return columns_of(*given, ranks=self.example_ranks)

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
        logits = self.logits(self.examples(self._columns(x)[0]), batch_size or 32)
        if self.length_axis is not None:
            longest = max(row.shape[self.length_axis] for row in logits)
            logits = [_padded(row, self.length_axis, longest) for row in logits]
        return np.stack(logits)

    def logits(self, examples: Examples, batch_size: int = 32) -> list[np.ndarray]:
        """The logits of each example, in their order; of tokens, as long as the batch that it was in."""
        examples.warn_of_cuts()
        found: list[Any] = [None] * len(examples)
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

    # === Config ===

    def get_config(self) -> dict[str, Any]:
        encoder = {layer.name for layer in self.bert.layers}
        changes = changed_layers(self)
        return {
            "bert": keras.saving.serialize_keras_object(self.bert),
            "name": self.name,
            "changed_layers": {name: change for name, change in changes.items() if name not in encoder},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "Task":
        config = dict(config)
        changes = config.pop("changed_layers")
        task = cls(keras.saving.deserialize_keras_object(config.pop("bert"), custom_objects), **config)
        restore_layers(task, changes)
        return task

    def save_own_variables(self, store: Any) -> None:
        for number, weight in enumerate(self._left_over()):
            store[str(number)] = ops.convert_to_numpy(weight)

    def load_own_variables(self, store: Any) -> None:
        for number, weight in enumerate(self._left_over()):
            weight.assign(store[str(number)])

    def _left_over(self) -> list[Any]:
        """The encoder's weights that are not this model's: the pooler's, where the head has no use for it."""
        own = {id(weight) for weight in self.weights}
        return [weight for weight in self.bert.weights if id(weight) not in own]

    def quantize(self, mode: Any = None, config: Any = None, filters: Any = None, **kwargs: Any) -> None:
        """As Keras's; without `filters` the Dense layers, which hold nearly all the work."""
        filters = filters or (lambda layer: isinstance(layer, keras.layers.Dense))
        super().quantize(mode, config=config, filters=filters, **kwargs)

    @classmethod
    def load(
        cls,
        source: Any,
        *,
        dtype: Any = None,
        seq_length: int | str | None = None,
        cache_dir: str | os.PathLike | None = None,
        local_only: bool = False,
    ) -> "Task":
        """The task with its head out of any format that has one; the arguments are those of `keras_bert.load`."""
        from keras_bert.weights.heads import assign_head, load_head, load_saved

        task = load_saved(cls, source, dtype=dtype, seq_length=seq_length)
        if task is None:
            places: Any = {"cache_dir": cache_dir, "local_only": local_only}
            checkpoint, bert = load_head(source, cls.heads, dtype=dtype, seq_length=seq_length or 128, **places)
            task = cls(bert, **cls.settings(checkpoint.heads[cls.heads[0]]))
            assign_head(task, checkpoint)
        return task

    @classmethod
    def settings(cls, head: Any) -> dict[str, Any]:
        """Arguments of the constructor that a stored head tells."""
        return {}


def check_bert(bert: Any) -> None:
    """Refuse what is no encoder."""
    if not isinstance(bert, Bert):
        raise TypeError(f'bert must be a Bert, such as keras_bert.load("base"). Received: {type(bert).__name__}')


def head_layer(units: int, bert: Bert, name: str) -> keras.layers.Dense:
    """The Dense layer of a head, in float32 under any policy: a loss wants its logits exact."""
    return dense(units, bert.config, dtype="float32", name=name)


def encode_rows(bert: Bert, output: str, *, rows: int) -> tuple[dict[str, Any], Any]:
    """Inputs [B, rows, S] of texts that make one example, and an output of the encoder for each, [B * rows, ...]."""
    inputs = {name: keras.Input((rows, None), dtype="int32", name=name) for name in bert.input}
    flat = {name: FlatRows(name=f"{name}_rows")(x) for name, x in inputs.items()}  # [B * rows, S]
    encoder = keras.Model(bert.input, bert.output[output], name="encoder")
    return inputs, encoder(flat)


@keras.saving.register_keras_serializable("keras_bert")
class FlatRows(Plain):
    """From [B, rows, S] to [B * rows, S]."""

    def call(self, x: Any) -> Any:
        return ops.reshape(x, (-1, ops.shape(x)[-1]))

    def compute_output_spec(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor((None, x.shape[-1]), dtype=x.dtype)


def as_batch(texts: Any) -> tuple[Any, bool]:
    """Columns, and whether there was but one text (or one pair) and no column."""
    if isinstance(texts, str):
        return [texts], True
    if isinstance(texts, tuple) and texts and isinstance(texts[0], str):
        return tuple([text] for text in texts), True
    return texts, False


class _Epoch(keras.callbacks.Callback):
    """Tells the order of the examples which epoch it is, in a run that goes on too."""

    def __init__(self, initial_epoch: int) -> None:
        import tensorflow as tf

        super().__init__()
        with tf.device("CPU:0"):
            self.number = tf.Variable(initial_epoch, dtype=tf.int32, trainable=False)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.number.assign(epoch)


def _steps(x: Any, batch_size: int, validation_split: float) -> int:
    """The steps of an epoch of packed inputs."""
    if isinstance(x, dict):
        return -(-round(len(next(iter(x.values()))) * (1 - validation_split)) // batch_size)
    steps = int(x.cardinality()) if hasattr(x, "cardinality") else getattr(x, "num_batches", None)
    if steps is None or steps < 0:
        raise ValueError("The paper's schedule must know the number of steps. Call compile() first.")
    return steps


def _padded(row: np.ndarray, axis: int, length: int) -> np.ndarray:
    widths = [(0, 0)] * row.ndim
    widths[axis] = (0, length - row.shape[axis])
    return np.pad(row, widths)
