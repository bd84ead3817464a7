"""`fit` of a task on several devices or a TPU: Keras's epochs and callbacks around the steps of keras_bert/training."""

import gc
import logging
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bert.compat import compiled_metrics, inner_optimizer
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from keras_bert.training.orbit_engine import Trainer, distribute
from keras_bert.training.train import mean_measures

logger = logging.getLogger("keras_bert")

STEPS_PER_LOOP = 10


def fit(
    task: Any,
    examples: LabelledRows,
    *,
    batch_size: int,
    epochs: int,
    initial_epoch: int,
    callbacks: Any,
    verbose: Any,
    seed: int | None,
    **others: Any,
) -> keras.callbacks.History:
    """Train a compiled task on all replicas of its strategy. Shapes are static, so the last batch is filled up.

    seed: of the order of the examples; None keeps the order as given.
    """
    if others:
        raise ValueError(
            f"On several devices, `fit` trains whole epochs, so {', '.join(others)} cannot be used. Leave it out. "
            f"Received: {', '.join(others)}"
        )
    _warn_of_metrics(task)
    gc.collect()  # the loop of an earlier `fit`: if Python frees it in the thread of a replica, TensorFlow can hang
    strategy = task.distribute_strategy
    steps = -(-len(examples) // batch_size)
    with strategy.scope():
        step = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        if not task.optimizer.built:
            task.optimizer.build(task.trainable_variables)

    def batches(start: int, part: tuple[int, int]) -> Any:
        return examples.static(batch_size, part, seed=seed, first_epoch=initial_epoch).repeat()

    dataset = distribute(batches, strategy, batch_size)
    trainer = Trainer(task, task.optimizer, dataset, step, strategy=strategy, accumulate=1, clip_norm=_clip_norm(task))
    all_callbacks = keras.callbacks.CallbackList(
        callbacks, add_history=True, add_progbar=verbose != 0, model=task, verbose=verbose, epochs=epochs, steps=steps
    )
    task.stop_training = False
    all_callbacks.on_train_begin()
    logs: dict[str, float] = {}
    for epoch in range(initial_epoch, epochs):
        all_callbacks.on_epoch_begin(epoch)
        sums: dict[str, float] = {}
        for done in range(0, steps, STEPS_PER_LOOP):
            count = min(STEPS_PER_LOOP, steps - done)
            all_callbacks.on_train_batch_begin(done)
            means = trainer.train(count)
            if (bad := means.pop("first_bad")) >= 0:
                bad -= (epoch - initial_epoch) * steps
                raise FloatingPointError(
                    f"The loss or its gradient is not a finite number in step {bad + 1} of epoch {epoch + 1}. "
                    f"Lower the learning rate. Received: {means}"
                )
            del means["tokens"], means["gradient_norm"]
            rows = min(count * batch_size, len(examples) - done * batch_size)  # the last batch is filled up
            sums = {name: sums.get(name, 0.0) + rows * mean for name, mean in means.items()}
            logs = {name: total / (done * batch_size + rows) for name, total in sums.items()}
            all_callbacks.on_train_batch_end(done + count - 1, logs)
            if task.stop_training:
                break
        all_callbacks.on_epoch_end(epoch, logs)
        if task.stop_training:
            break
    all_callbacks.on_train_end(logs)
    return task.history


def _warn_of_metrics(task: Any) -> None:
    """Warn about compiled metrics that are not computed: all but those of the task itself."""
    own = {metric.name for metric in task.default_metrics()}
    given = compiled_metrics(task)
    names = {getattr(metric, "name", None) or getattr(metric, "__name__", metric) for metric in given}
    if names - own:
        logger.warning(
            "On several devices, `fit` shows only these metrics: %s. Compute others in a callback. Not shown: %s",
            ", ".join(["loss", *sorted(own)]),
            ", ".join(sorted(names - own)),
        )


def _clip_norm(task: Any) -> float:
    """The compiled global_clipnorm, for the sum of the replicas' gradients; without one, a norm beyond any."""
    optimizer = inner_optimizer(task.optimizer)
    if optimizer.clipnorm or optimizer.clipvalue:
        raise ValueError(
            "This optimizer clips each gradient separately, but several devices need clipping by the global norm. "
            f"Use global_clipnorm instead. Received: clipnorm={optimizer.clipnorm}, clipvalue={optimizer.clipvalue}"
        )
    if optimizer.use_ema or optimizer.gradient_accumulation_steps:
        raise ValueError(
            "An optimizer that averages weights or accumulates gradients does not work on several devices. Leave both "
            "options out (`ema` and `accumulate` of a recipe). Received: "
            f"use_ema={optimizer.use_ema}, gradient_accumulation_steps={optimizer.gradient_accumulation_steps}"
        )
    return optimizer.global_clipnorm or 1e9


def evaluator(task: Any, examples: LabelledRows, batch_size: int) -> Callable[[], dict[str, float]]:
    """A function that computes the means of a task's measures over all examples, on all devices."""

    def batches(start: int, part: tuple[int, int]) -> Any:
        return examples.static(batch_size, part)

    return mean_measures(task, batches, strategy=task.distribute_strategy, batch_size=batch_size)
