"""TextTrainer: Keras's `compile`, `fit` and `evaluate` for models that take text."""

import dataclasses
import logging
from typing import Any

import keras
from keras import ops

from keras_bert.checks import check_no_class, count_of
from keras_bert.compat import epochs_that_end_early, inner_optimizer
from keras_bert.tasks.columns.packed_inputs import is_packed, steps_of
from keras_bert.tasks.columns.tables import is_table
from keras_bert.tasks.columns.text_columns import part_of, rows_of, split_columns
from keras_bert.tasks.distillation import Distillation
from keras_bert.tasks.finetune_recipe import FinetuneRecipe
from keras_bert.tasks.fitting.callback_order import in_order
from keras_bert.tasks.fitting.chosen_recipe import KERAS_BATCH_SIZE, ChosenRecipe
from keras_bert.tasks.fitting.epoch_position import EpochPosition, check_initial_step, check_resumable
from keras_bert.tasks.fitting.validation import Validation, check_loss, is_weighted_mean, means_of_ids
from keras_bert.tasks.metrics.scores import Scores
from keras_bert.tasks.readers import RowStream
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from keras_bert.tasks.rows.streamed_rows import StreamedRows
from keras_bert.tasks.student import Student
from keras_bert.tasks.text_predictor import check_steps, refuse_options
from keras_bert.training.measure import Measure
from keras_bert.training.strategy import built_on_several, scope_of, splits_fit_on_jax

logger = logging.getLogger("keras_bert")

_OF_PROBABILITIES = ("binary_crossentropy", "categorical_crossentropy", "sparse_categorical_crossentropy")


class TextTrainer(Student):
    """The part of a `Task` that trains on rows of text and evaluates; the rest of the task says how."""

    default_batch_size: int = 16  # of `fit`
    compares_rows: bool = False  # whether the loss compares the rows of a batch with one another
    objective: tuple[str, ...] = ("loss",)  # the measures whose means add up to the loss
    recipe: FinetuneRecipe | None = None  # what `fit` compiled the model with; None if the user compiled it

    # === Compiling ===

    def compile(self, *args: Any, **options: Any) -> None:
        """As Keras's, but without XLA on TensorFlow unless `jit_compile` asks for it.

        XLA would compile again for each length of a batch, and compute the padding.
        """
        if keras.backend.backend() == "tensorflow":
            options.setdefault("jit_compile", False)
        self.recipe = None
        loss = args[1] if len(args) > 1 else options.get("loss")
        check_no_class(loss)
        if isinstance(loss, str) and loss in _OF_PROBABILITIES:
            logger.warning(
                "loss=%r takes probabilities, but a task returns logits. Pass loss=task.default_loss(), or a loss with "
                "from_logits=True.", loss
            )  # fmt: skip
        super().compile(*args, **options)

    def get_compile_config(self) -> dict[str, Any] | None:
        config = super().get_compile_config()
        return config | {"recipe": dataclasses.asdict(self.recipe)} if config and self.recipe else config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        config = dict(config)
        recipe = config.pop("recipe", None)
        options = keras.saving.deserialize_keras_object(config)
        self.compile(**options)
        if recipe is not None:
            weights = recipe.get("class_weight")
            if isinstance(weights, dict):  # JSON makes texts of ids
                weights = {name if name in self.labels else int(name): weight for name, weight in weights.items()}
            self.recipe = FinetuneRecipe(**recipe | {"class_weight": weights})
        elif inner_optimizer(self.optimizer).name == "paper_finetuning":  # how files of earlier versions say it
            self.recipe = FinetuneRecipe()
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def _compile_by(
        self, recipe: FinetuneRecipe, steps: int, level: int, class_weight: Any = None, targets: Any = None
    ) -> None:
        """Compile for a run of this many batches on these targets, and log it at this level."""
        logger.log(level, recipe.describe(type(self).__name__, steps))
        with scope_of(self):
            loss = self.recipe_loss(recipe.label_smoothing, class_weight, targets)
            optimizer = recipe.optimizer(steps, self.start_head(targets))
            self.compile(optimizer, loss, weighted_metrics=self.default_metrics())
        self.recipe = recipe

    # === Training and evaluation ===

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
        initial_step: int = 0,
        max_steps: int | None = None,
        teacher: Any = None,
        distillation: Distillation | None = None,
        **options: Any,
    ) -> keras.callbacks.History:
        """As Keras's, on text. On one device, it stops after an epoch whose loss is NaN or infinite.

        Args:
            x: columns, a table, or the rows of a file; also a stream of them, as `stream_rows` returns it.
            batch_size: by default that of the recipe, which is 16, or 32 for a `SentenceEmbedder`. With `compile` it is
                32, as in Keras.
            epochs: 3 by default without `compile`, otherwise 1 as in Keras.
            validation_data: columns or a table, tokenized once and read once in an epoch. The log has the loss and the
                metrics of it, and without `compile` also the scores that the task reports: val_spearman, val_entity_f1,
                val_exact_match and so on. With `compile` the callback `keras_bert.tasks.metrics.scores.Scores(x, y)`
                adds them.
            class_weight: by label name or id, or "balanced"; by default as in the recipe.
            callbacks: those that monitor a score, such as EarlyStopping("val_f1"), know whether a high score is better,
                and run after those that compute scores.
            seed: of the order of the examples, which changes in each epoch. Not used if x is packed.
            recipe: compile with this recipe instead of the paper's.
            initial_step: of the first epoch, leave out so many batches, which were trained on already.
            max_steps: end after so many batches of all epochs together, in place of `epochs`.
            teacher: a trained task of the same class, from whose answers on the same rows the task learns too.
            distillation: what is learned from the teacher, and with what weight.
        """
        lesson = self._lesson_on_one_device(teacher, distillation)
        chosen = ChosenRecipe.of(self, recipe, class_weight, initial_epoch)
        class_weight = chosen.class_weight
        epochs = count_of("epochs", epochs, chosen.epochs)
        own_size = chosen.batch_size(self.default_batch_size)
        given_size, batch_size = batch_size, count_of("batch_size", batch_size, own_size)
        packed = is_packed(x)
        x = self._packed(x) if packed else x
        validation_data = self._packed_validation(validation_data, packed)
        if isinstance(x, RowStream) or initial_step or max_steps is not None:
            check_resumable(x, packed, self.is_distributed, shuffle, initial_step, max_steps)
        check_steps(options)
        steps: int | None = options.get("steps_per_epoch")
        callbacks = in_order(callbacks)
        options |= {"epochs": epochs, "verbose": verbose, "initial_epoch": initial_epoch}

        if packed:
            y = self._targets_of_ids(x, y)
            options |= {"class_weight": self.class_weight_ids(class_weight, y), "sample_weight": sample_weight}
            chosen.check_targets(self, y, class_weight)
            if chosen.compiles:
                per_epoch = steps or steps_of(x, batch_size, validation_split)
                self._compile_by(chosen.recipe, epochs * per_epoch, chosen.log_level, class_weight, y)
            options |= {"validation_split": validation_split, "validation_data": validation_data}
            options |= {"callbacks": callbacks, "shuffle": shuffle and isinstance(x, dict)}
            with self.taught(lesson):
                return super().fit(x, y, batch_size if isinstance(x, dict) else given_size, **options)

        if isinstance(x, RowStream):
            examples: Any = self._streamed_examples(x, y, sample_weight, validation_split, class_weight)
            class_weight = examples.class_weight
        else:
            columns: Any = self._columns(x, y, sample_weight)
            if validation_split and validation_data is None:
                columns, validation_data = split_columns(columns, validation_split)
            examples = self.labelled_examples(columns, class_weight)
        self.check_learnable(examples)
        self.check_batch_size(examples, batch_size)
        chosen.check_targets(self, examples.targets, class_weight)
        if not (chosen.compiles or chosen.continues or self.is_distributed or isinstance(x, RowStream)):
            check_loss(self, examples, batch_size)
        own_loss = (chosen.compiles or self.recipe is not None) and is_weighted_mean(self.default_loss())
        fills = own_loss and lesson is None and not self.compares_rows
        splits = splits_fit_on_jax(len(examples), batch_size, self.variables, fills=fills)
        per_epoch = steps or -(-len(examples) // batch_size)
        check_initial_step(initial_step, per_epoch)
        if max_steps is not None:
            options["epochs"] = epochs = -(-max_steps // per_epoch)
        if validation_data is not None and not is_packed(validation_data):
            # Before `compile`, which makes a new optimizer: an error in these rows leaves the task as it was.
            validation = self._validation(
                validation_data,
                options.pop("validation_batch_size", None) or batch_size,
                callbacks,
                steps=options.pop("validation_steps", None),
                frequency=options.pop("validation_freq", 1),
                scored=chosen.compiles or chosen.continues,
            )
            callbacks.insert(1, validation)
            validation_data = None
        if chosen.compiles:
            all_steps = max_steps or epochs * per_epoch
            self._compile_by(chosen.recipe, all_steps, chosen.log_level, class_weight, examples.targets)

        if self.is_distributed:
            from keras_bert.tasks.fitting import fit_distributed as distributed

            if validation_data is not None:
                raise ValueError(
                    "validation_data has the ids that a preprocessor makes of texts, but training on several devices "
                    f"can validate only on texts. Pass the texts. Received: {type(validation_data).__name__}"
                )
            options |= {"batch_size": batch_size, "callbacks": callbacks, "seed": seed if shuffle else None}
            return distributed.fit(self, examples, **options)

        at = EpochPosition(epoch=initial_epoch, start=initial_step, steps=per_epoch, max_steps=max_steps)
        callbacks.insert(0, at)
        if shuffle:
            # The states of a teacher and its student are compared for each text, which needs rows of one text.
            batches = examples.shuffled(batch_size, seed=seed, epoch=at.epoch, start=at.start, share=lesson is None)
        else:
            batches = examples.batches(batch_size)
        if splits:
            from keras_bert.tasks.fitting.split_batches import split_batches

            batches = split_batches(batches)
        if initial_step and isinstance(batches, keras.utils.PyDataset):
            batches = epochs_that_end_early(batches)
        with self.taught(lesson):
            return super().fit(batches, callbacks=callbacks, validation_data=validation_data, shuffle=False, **options)

    def _lesson_on_one_device(self, teacher: Any, distillation: Distillation | None) -> Any:
        lesson = self.lesson(teacher, distillation)
        if lesson is not None and self.is_distributed:
            raise ValueError(
                "A teacher was passed, but a student can be trained on one device only, and this task was built in a "
                "strategy for several. Build the task outside of the strategy. "
                f"Received: teacher={teacher.name!r}"
            )
        return lesson

    def _streamed_examples(
        self, stream: RowStream, y: Any, sample_weight: Any, validation_split: float, class_weight: Any
    ) -> StreamedRows:
        if y is not None or sample_weight is not None or validation_split:
            raise ValueError(
                "y, sample_weight or validation_split was passed with a stream, which has its own targets and is "
                f"not split. Leave them out. To validate, pass validation_data. Received: the stream of {stream.path}"
            )
        return StreamedRows(self, stream, class_weight)

    def _validation(
        self, data: Any, batch_size: int, callbacks: list[Any], *, steps: int | None, frequency: Any, scored: bool
    ) -> Validation:
        """The callback that validates on text. steps: read only so many batches. scored: with the task's own scores."""
        given = data if isinstance(data, tuple | list) and not is_table(data) else (data,)
        if len(given) > 3 or (isinstance(data, list) and all(isinstance(one, str) for one in data)):
            raise TypeError(
                "validation_data must be (x, y), a table or the path of a file. Pass the targets too, as in "
                f"(texts, labels). Received: a {type(data).__name__} of {len(given)} values"
            )
        columns: Any = self._columns(*given)
        if steps:
            columns = part_of(columns, slice(steps * batch_size))
        scored = scored and not any(isinstance(callback, Scores) for callback in callbacks)  # the user's own
        validation = Validation(
            *columns, batch_size=batch_size, frequency=frequency, scored=scored, callbacks=list(callbacks)
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
        (On packed ids, there are only the loss and the metrics.)

        The values do not depend on the batch size, except where a loss compares the rows of a batch. But for batches of
        ids from a tf.data or a generator, Keras weighs the losses by the number of rows. Sample weights weigh only the
        loss and the metrics. Where a metric and a score have the same name, the value is the metric's.
        """
        check_steps(options)
        if not self.compiled:
            self._compile_by(FinetuneRecipe(), steps=1, level=logging.DEBUG)  # so that a later fit compiles again
        packed = is_packed(x)
        if packed:
            x = self._packed(x)
            y = self._targets_of_ids(x, y)
        if packed and (self.is_distributed or self.compares_rows or not isinstance(x, dict)):
            options["sample_weight"] = sample_weight
            return super().evaluate(x, y, batch_size, verbose, **options)
        batch_size = count_of("batch_size", batch_size, KERAS_BATCH_SIZE)
        by_name = options.pop("return_dict", False)
        if self.is_distributed:
            refuse_options(options, "On several devices")
        steps, callbacks = options.pop("steps", None), options.pop("callbacks", None)
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            shown = (steps or steps_of(x, batch_size, 0.0)) if packed else 1
            callbacks = keras.callbacks.CallbackList(
                callbacks, add_progbar=verbose != 0, model=self, verbose=verbose, epochs=1, steps=shown
            )
        scores: dict[str, float] = {}
        if packed:
            options.pop("_use_cached_eval_dataset", None)  # of Keras's `fit`
            refuse_options(options, "On packed ids")
            means = means_of_ids(self, x, y, sample_weight, batch_size, steps, callbacks)
        else:
            refuse_options(options, "On text")
            columns: Any = self._columns(x, y, sample_weight)
            if steps is not None:
                columns = part_of(columns, slice(steps * batch_size))
            validation = Validation(*columns, batch_size=batch_size, scored=by_name, callbacks=[callbacks])
            validation.prepare(self)
            means, scores = validation.validate()
        if by_name:
            return scores | means
        values = list(means.values())
        return values if len(values) > 1 else values[0]

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

    @property
    def is_distributed(self) -> bool:
        """Whether this task was built under a strategy of several devices or for a TPU."""
        return built_on_several(self)

    def held_out_loss(self, examples: LabelledRows, y: Any, logits: Any, weight: Any) -> Any:
        """The loss of a batch of `examples`, as a number."""
        return self.compute_loss(None, y, logits, weight, training=False)

    def held_out_measures(self, examples: LabelledRows, y: Any, logits: Any, weight: Any) -> dict[str, Measure]:
        """`measures_of` a batch of `examples`, for tasks on several devices."""
        return self.measures_of(y, logits, weight)

    def labelled_examples(self, columns: Any, class_weight: Any = None, *, held_out: bool = False) -> LabelledRows:
        """The examples of columns x, y and sample_weight, to learn from or to be scored."""
        x, y, sample_weight = columns
        if y is None:
            raise ValueError(
                f"y is missing. To train and to evaluate, {type(self).__name__} needs a target for each row. Pass y. "
                "Received: y=None"
            )
        if not rows_of(x[0] if isinstance(x, tuple) and x else x, "text"):
            raise ValueError("There are no rows. Pass at least one. Received: empty columns")
        if held_out:
            examples = self.held_out_examples(x, y, sample_weight)
        else:
            examples = self.examples(x, y, sample_weight, class_weight)
        examples.warn_of_cuts("held-out rows" if held_out else "training rows")
        if not held_out:
            examples.warn_of_unknown(self.bert.preprocessor.vocabulary["[UNK]"])
        return examples


def _weighted(values: Any, weight: Any) -> Measure:
    if len(values.shape) > len(weight.shape):  # a value for each label of a text: their mean
        values = ops.mean(values, axis=-1)
    return Measure(ops.sum(values * weight), ops.sum(weight))
