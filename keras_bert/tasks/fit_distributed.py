"""A task's fit on many devices or a TPU: Keras's epochs and callbacks around the steps of keras_bert/training."""

import logging
from typing import Any

import keras
import tensorflow as tf

from keras_bert.compat import compiled_metrics
from keras_bert.tasks.labelled_rows import LabelledRows
from keras_bert.training.orbit_engine import Evaluator, Trainer
from keras_bert.training.strategy import check_batch_size
from keras_bert.training.train import distribute

logger = logging.getLogger("keras_bert")

STEPS_PER_LOOP = 10


def fit(
    task: Any,
    examples: LabelledRows,
    validation: LabelledRows | None,
    *,
    batch_size: int,
    epochs: int,
    initial_epoch: int,
    callbacks: Any,
    verbose: Any,
    seed: int | None,
    **others: Any,
) -> keras.callbacks.History:
    """Train a compiled task on all replicas of its strategy; shapes are static, so the last batch is filled up.

    seed: of the order; None: as given.
    """
    if others:
        raise ValueError(f"On several devices fit goes by whole epochs. Leave out what came: {', '.join(others)}")
    _warn_of_metrics(task)
    strategy = task.distribute_strategy
    check_batch_size(batch_size, strategy)
    steps = -(-len(examples) // batch_size)
    with strategy.scope():
        step = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        if not task.optimizer.built:
            task.optimizer.build(task.trainable_variables)

    def batches(start: int, part: tuple[int, int]) -> Any:
        return examples.static(batch_size, part, seed=seed, first_epoch=initial_epoch).repeat()

    dataset = distribute(batches, strategy, batch_size)
    trainer = Trainer(task, task.optimizer, dataset, step, strategy=strategy, accumulate=1, clip_norm=_clip_norm(task))
    evaluator = None if validation is None else _evaluator(task, validation, batch_size)
    told = keras.callbacks.CallbackList(
        callbacks, add_history=True, add_progbar=verbose != 0, model=task, verbose=verbose, epochs=epochs, steps=steps
    )
    task.stop_training = False
    told.on_train_begin()
    logs: dict[str, float] = {}
    for epoch in range(initial_epoch, epochs):
        told.on_epoch_begin(epoch)
        sums: dict[str, float] = {}
        for done in range(0, steps, STEPS_PER_LOOP):
            count = min(STEPS_PER_LOOP, steps - done)
            told.on_train_batch_begin(done)
            means = trainer.train(tf.constant(count))
            if (bad := means.pop("first_bad")) >= 0:
                raise FloatingPointError(
                    f"The loss and its gradient must be numbers. Lower the learning rate. Received: step {bad} of "
                    f"epoch {epoch} with {means}"
                )
            del means["tokens"], means["gradient_norm"]
            sums = {name: sums.get(name, 0.0) + count * mean for name, mean in means.items()}
            logs = {name: total / (done + count) for name, total in sums.items()}
            told.on_train_batch_end(done + count - 1, logs)
        if evaluator is not None:
            logs |= {f"val_{name}": mean for name, mean in evaluator.evaluate(tf.constant(-1)).items()}
        told.on_epoch_end(epoch, logs)
        if task.stop_training:
            break
    told.on_train_end(logs)
    return task.history


def _warn_of_metrics(task: Any) -> None:
    """Say which metrics of `compile` the loop does not compute: all but those of the task itself."""
    own = {metric.name for metric in task.default_metrics()}
    given = compiled_metrics(task)
    names = {getattr(metric, "name", None) or getattr(metric, "__name__", metric) for metric in given}
    if names - own:
        logger.warning(
            "On several devices fit shows the loss and %s. Score others with a callback. Left out: %s",
            ", ".join(sorted(own)),
            ", ".join(sorted(names - own)),
        )


def _clip_norm(task: Any) -> float:
    """The compiled one, taken of the sum over the replicas here; where there is none, one that never bites."""
    optimizer = getattr(task.optimizer, "inner_optimizer", task.optimizer)  # behind loss scaling
    if optimizer.clipnorm or optimizer.clipvalue:
        raise ValueError(
            "On several devices gradients are clipped together. Compile with global_clipnorm. "
            f"Received: clipnorm={optimizer.clipnorm}, clipvalue={optimizer.clipvalue}"
        )
    return optimizer.global_clipnorm or 1e9


def evaluate(task: Any, examples: LabelledRows, batch_size: int) -> dict[str, float]:
    """The means of a task's measures over all examples."""
    return _evaluator(task, examples, batch_size).evaluate(tf.constant(-1))


def _evaluator(task: Any, examples: LabelledRows, batch_size: int) -> Evaluator:
    def batches(start: int, part: tuple[int, int]) -> Any:
        return examples.static(batch_size, part)

    strategy = task.distribute_strategy
    return Evaluator(task, distribute(batches, strategy, batch_size), strategy=strategy)
