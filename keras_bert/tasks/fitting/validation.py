"""Validation: one pass over held-out rows gives the loss, the metrics and the scores of a task."""

from collections.abc import Container, Sequence
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.lazy import tf
from keras_bert.tasks.student import Student
from keras_bert.wording import first_line

CHUNK = 1024  # rows whose loss and metrics are computed at a time, as one batch


class Validation(keras.callbacks.Callback):
    """Adds val_loss, the metrics and the scores of held-out rows to the logs of each epoch.

    The rows are tokenized once, when training begins, and the model reads them once in an epoch.

    Args:
        x, y, sample_weight: columns, as `fit` takes them.
        frequency: validate every so many epochs, or after the epochs with these numbers, from 1.
        scored: whether to add the scores that the task reports of its answers, beside the loss and the metrics.
        callbacks: whose `on_test_begin` and `on_test_end` are called, as Keras does when it validates.
        options: of the task's `report`.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        batch_size: int = 32,
        frequency: int | Container[int] = 1,
        scored: bool = True,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        self.columns = x, y, sample_weight
        self.batch_size = batch_size
        self.frequency = frequency
        self.scored = scored
        self.callbacks = callbacks
        self.options = options
        self.examples: Any = None
        self.evaluator: Any = None  # on all devices, if there are several

    def prepare(self, task: Any) -> None:
        """Tokenize the rows for this task, which shows whether they are right before training begins."""
        self.set_model(task)
        self.examples = task.labelled_examples(self.columns, held_out=True)

    def on_train_begin(self, logs: Any = None) -> None:
        if self.examples is None:
            self.prepare(self.model)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        every = self.frequency
        if (epoch + 1) % every == 0 if isinstance(every, int) else epoch + 1 in every:
            self.add_to({} if logs is None else logs, *self.validate())

    def validate(self) -> tuple[dict[str, float], dict[str, float]]:
        """The means of the loss and the metrics, and the scores, of the model as it is now."""
        for callback in self.callbacks:
            callback.on_test_begin()
        means, scores = self._pass()
        for callback in self.callbacks:
            callback.on_test_end(means)
        return means, scores

    def _pass(self) -> tuple[dict[str, float], dict[str, float]]:
        if self.model.is_distributed and not self.scored and not self.model.compares_rows:
            from keras_bert.tasks.fitting import fit_distributed as distributed

            self.evaluator = self.evaluator or distributed.evaluator(self.model, self.examples, self.batch_size)
            return self.evaluator(), {}
        logits = self.model.logits(self.examples, self.batch_size)
        means = means_of(self.model, self.examples, logits)
        if not self.scored:
            return means, {}
        return means, self.report(logits)

    def report(self, logits: list[np.ndarray]) -> dict[str, float]:
        """The scores of the answers in these logits."""
        return self.model.report_logits(self.columns[1], self.examples, logits, **self.options)

    def add_to(self, logs: dict[str, Any], means: dict[str, float], scores: dict[str, float]) -> None:
        """Add both to the logs of an epoch. Where a metric and a score have the same name, the metric is added."""
        logs |= {f"val_{name}": value for name, value in (scores | means).items()}


def means_of(task: Any, examples: Any, logits: list[np.ndarray]) -> dict[str, float]:
    """The loss and the compiled metrics of examples whose logits are known: means over everything that has a weight.

    They do not depend on the size of the batches, except where a loss compares the rows of a batch with one another:
    there, a batch is `CHUNK` rows. Under several devices the metrics are those of the task itself.
    """
    sums: dict[str, Any] = {"loss": np.zeros(2)}
    found: dict[str, Any] = {}
    if not task.is_distributed:
        task.reset_metrics()
    for start in range(0, len(logits), CHUNK):
        index = examples.order[start : start + CHUNK]
        batch = task.stack_logits([logits[number] for number in index])
        y, weight = map(_tensor, examples.targets_of(index, batch.shape[:2]))
        batch = ops.convert_to_tensor(batch)
        if task.is_distributed:
            for name, measure in task.held_out_measures(examples, y, batch, weight).items():
                sums[name] = sums.get(name, 0) + np.array([float(measure.total), float(measure.count)])
            continue
        by_weight = is_weighted_mean(task.loss) and weight is not None
        count = float(ops.sum(weight)) if by_weight else len(index)
        if count:
            sums["loss"] += _batch_loss(task, examples, y, batch, weight) * count, count
        found = task.compute_metrics(None, y, batch, weight)
    means = {name: float(total / count) if count else 0.0 for name, (total, count) in sums.items()}
    return means | {name: float(value) for name, value in found.items() if name != "loss"}


def _batch_loss(task: Any, examples: Any, y: Any, logits: Any, weight: Any) -> float:
    """The loss of a batch; an error that names the `loss` of the user if it does not fit the task's outputs."""
    if task.loss is None or task.recipe is not None:  # the loss is not the user's
        return float(task.held_out_loss(examples, y, logits, weight))
    if isinstance(task.loss, str):
        keras.losses.get(task.loss)  # Keras's own error for an unknown name
    # Keras and the backends raise these where shapes or types do not fit.
    of_backend: Any = RuntimeError if keras.backend.backend() == "torch" else ()
    if keras.backend.backend() == "tensorflow":
        of_backend = tf.errors.InvalidArgumentError
    try:
        return float(task.held_out_loss(examples, y, logits, weight))
    except (ValueError, TypeError, of_backend) as error:
        raise ValueError(
            f"The `loss` that this {type(task).__name__} was compiled with does not accept its targets and "
            "logits. Compile it with loss=task.default_loss(), or leave out `compile`. Received: "
            f"loss={task.loss!r}, targets of shape {list(y.shape)}, logits of shape {list(logits.shape)}, "
            f"error: {first_line(error)}"
        ) from error


def check_loss(task: Any, examples: Any, batch_size: int) -> None:
    """Compute the user's loss of a batch of zeros, which shows whether it fits the task before training begins."""
    if task.loss is None or task.compares_rows or type(task).compute_loss is not Student.compute_loss:
        return
    index = np.arange(min(batch_size, len(examples)))
    x, y, weight = keras.tree.map_structure(np.asarray, examples.batch(index))
    length = x["input_word_ids"].shape[-1]
    logits = np.zeros((len(index), *(size or length for size in task.output_shape[1:])), "float32")
    _batch_loss(task, examples, _tensor(y), ops.convert_to_tensor(logits), _tensor(weight))


def is_weighted_mean(loss: Any) -> bool:
    """Whether a loss is a mean over everything that has a weight."""
    return getattr(loss, "reduction", None) == "mean_with_sample_weight"


def means_of_ids(
    task: Any, x: Any, y: Any, sample_weight: Any, batch_size: int, steps: int | None, callbacks: Any
) -> dict[str, float]:
    """The same of packed ids and their targets, for one device."""

    def passed_on(batch: int, logs: Any = None) -> None:
        callbacks.on_test_batch_begin(batch)
        callbacks.on_test_batch_end(batch)

    if y is None:
        raise ValueError("y is missing. To evaluate packed ids, pass a target for each row. Received: y=None")
    y, sample_weight = (None if one is None else np.asarray(one) for one in (y, sample_weight))
    rows = len(keras.tree.flatten(x)[0])
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if values is not None and len(values) != rows:
            raise ValueError(
                f"There are {rows} rows of ids, but {name} has {len(values)}. Pass a value for each row. "
                f"Received: {name} of length {len(values)}"
            )
    callbacks.on_test_begin()
    each = [keras.callbacks.LambdaCallback(on_predict_batch_end=passed_on)]
    logits = task.predict(x, batch_size, verbose=0, steps=steps, callbacks=each)

    def targets_of(index: Any, shape: Any) -> tuple[Any, Any]:
        return y[index], None if sample_weight is None else sample_weight[index]

    examples = SimpleNamespace(order=np.arange(len(logits)), targets_of=targets_of)  # what `means_of` asks for
    means = means_of(task, examples, logits)
    callbacks.on_test_end(means)
    return means


def _tensor(values: Any) -> Any:
    return None if values is None else ops.convert_to_tensor(np.asarray(values))
