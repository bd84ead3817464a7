"""train: one loop for pretraining and fine-tuning, on one device or many, that survives being killed."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from keras_bert.training.checkpoints import Checkpoints, is_chief, native
from keras_bert.training.device_peak import device_peak
from keras_bert.training.report import Report

try:
    from keras_bert.training.evaluator import Evaluator
    from keras_bert.training.trainer import Trainer
except ModuleNotFoundError as error:
    raise ImportError(
        f"Training under a strategy runs on Orbit. Run: pip install 'keras3-bert[pretrain]'. Received: {error}"
    ) from error

logger = logging.getLogger("keras_bert")

Batches = Callable[[int, tuple[int, int]], Any]


def train(
    model: Any,
    optimizer: Any,
    batches: Batches,
    *,
    strategy: Any,
    steps: int,
    batch_size: int,
    total_steps: int | None = None,
    accumulate: int = 1,
    clip_norm: float = 1.0,
    steps_per_loop: int = 10,
    directory: str | None = None,
    checkpoint_every: int = 1000,
    keep: int = 5,
    keep_every_hours: float | None = None,
    validation: Any = None,
    validate_every: int = 1000,
    flops_per_token: float | None = None,
    where: Callable[[int], str] = "batch {}".format,
) -> None:
    """Train until step `steps`; with a directory, go on from its last checkpoint.

    SIGTERM ends a run that has a directory: it writes a checkpoint and exits with code 143, as shells tell of it,
    so that no command goes on with half a run. So does Ctrl-C, as KeyboardInterrupt; a second one stops at once.

    model: has `measures(batch, training)`, a dict of `Measure` by name, and `objective`, the names of those whose means
        add up to the loss. Built in the strategy's scope.
    batches: from (step, (i, n)) to a dataset that begins with the batch of this step, and has of each global batch the
        i-th of n equal parts. A pure function, so that a run that goes on gets the same batches.
    batch_size: of the global batch. The replicas share it, and each takes its share in `accumulate` parts.
    total_steps: where the run ends, if this is but a phase of it.
    keep, keep_every_hours: how many of the latest checkpoints stay, and of the older ones one in so many hours.
    validation: as batches, but with an end.
    where: from a step to where its data lies, to be named when the loss is not a number.
    """
    check_batch_size(batch_size, strategy, accumulate)
    _check_scope([*model.trainable_variables, optimizer.iterations], strategy)
    with strategy.scope():
        step = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
    checkpoints = None
    if directory is not None:
        state = {"step": [step], "model": model.variables, "optimizer": optimizer.variables}
        checkpoints = Checkpoints(
            f"{directory}/checkpoints", state, strategy=strategy, keep=keep, keep_every_hours=keep_every_hours
        )
        checkpoints.restore()
    now = int(step.read_value())
    if now >= steps:
        return

    dataset = distribute(batches, strategy, batch_size, start=now)
    trainer = Trainer(model, optimizer, dataset, step, strategy=strategy, accumulate=accumulate, clip_norm=clip_norm)
    evaluator = validation and Evaluator(model, distribute(validation, strategy, batch_size), strategy=strategy)
    report = Report(
        directory if is_chief(strategy) else None,
        start=now,
        steps=total_steps or steps,
        peak=device_peak(strategy),
        flops_per_token=flops_per_token,
    )
    on_any_worker = _agreement(strategy)
    with report, _signals(directory is not None) as asked_to_stop:
        while now < steps:
            goal = min(now + steps_per_loop, steps, _next(now, checkpoint_every), _next(now, validate_every))
            began = time.perf_counter()
            means = trainer.train(tf.constant(goal - now))
            seconds = time.perf_counter() - began
            if (bad := means.pop("first_bad")) >= 0:
                raise _not_a_number(bad, means, where(bad), checkpoints)
            report(goal, means, loop_steps=goal - now, seconds=seconds)
            now = goal
            stop = on_any_worker(asked_to_stop)
            # Before its step is saved: a run that goes on makes up for a validation that was cut short.
            if evaluator and not stop and (now == steps or now % validate_every == 0):
                means = evaluator.evaluate(tf.constant(-1))
                report(now, {f"validation_{name}": mean for name, mean in means.items()})
            if checkpoints and (stop or now == steps or now % checkpoint_every == 0):
                checkpoints.save(now)
            if stop:
                logger.info("Stopped by a signal at step %d; the same command goes on from there.", now)
                raise KeyboardInterrupt if signal.SIGINT in asked_to_stop else SystemExit(128 + signal.SIGTERM)


def evaluate(model: Any, batches: Any, *, strategy: Any, batch_size: int) -> dict[str, float]:
    """The means of a model's measures over all batches; `batches` as in `train`, but with an end."""
    dataset = distribute(batches, strategy, batch_size)
    return Evaluator(model, dataset, strategy=strategy).evaluate(tf.constant(-1))


def distribute(batches: Batches, strategy: Any, batch_size: int, start: int = 0) -> Any:
    """The dataset that gives each replica its rows of each global batch, from the batch of step `start`."""
    check_batch_size(batch_size, strategy)

    def of_worker(context: Any) -> Any:
        dataset = batches(start, (context.input_pipeline_id, context.num_input_pipelines))
        if context.num_replicas_in_sync > context.num_input_pipelines:
            share = batch_size // context.num_replicas_in_sync
            dataset = dataset.rebatch(share, drop_remainder=True)  # a TPU wants static shapes
        return dataset.prefetch(tf.data.AUTOTUNE)

    return strategy.distribute_datasets_from_function(of_worker)


def check_backend() -> None:
    """Refuse a model that TensorFlow cannot run."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Pretraining, and evaluating pretrained weights, run on the TensorFlow backend. Start again with "
            f"KERAS_BACKEND=tensorflow; any backend loads the model. Received: backend {keras.backend.backend()!r}"
        )


def check_batch_size(batch_size: int, strategy: Any, accumulate: int = 1) -> None:
    """Refuse a global batch that does not part evenly."""
    parts = strategy.num_replicas_in_sync * accumulate
    if batch_size < 1 or batch_size % parts:
        raise ValueError(
            f"batch_size must be a multiple of {parts}: {strategy.num_replicas_in_sync} replicas, and "
            f"accumulate={accumulate}. Take {max(1, round(batch_size / parts)) * parts}. "
            f"Received: batch_size={batch_size}"
        )


def _check_scope(variables: Iterable[Any], strategy: Any) -> None:
    for variable in variables:
        if not strategy.extended.variable_created_in_scope(native(variable)):
            raise ValueError(
                "Model and optimizer must be built in the strategy's scope. Build both under "
                f"`with strategy.scope():`. Received: {variable.path}, built outside of it"
            )


def _next(step: int, every: int) -> int:
    """The next multiple."""
    return step - step % every + every


@contextmanager
def _signals(wanted: bool) -> Iterator[list[int]]:
    """A list that SIGTERM and the first Ctrl-C fill, if wanted; only the main thread can listen."""
    came: list[int] = []
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield came
        return

    def note(number: int, _: Any) -> None:
        if signal.SIGINT in came:
            raise KeyboardInterrupt
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _agreement(strategy: Any) -> Callable[[Any], bool]:
    """Whether a flag is set on any worker: all stop at the same step, or they would wait for each other for ever."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return bool
    total = tf.function(lambda flag: strategy.reduce("SUM", strategy.run(lambda: flag), axis=None))
    return lambda flag: bool(total(tf.constant(float(bool(flag)))) > 0)


def _not_a_number(step: int, means: dict[str, float], data: str, checkpoints: Checkpoints | None) -> FloatingPointError:
    last = checkpoints.latest if checkpoints else None
    received = ", ".join(f"{name}={mean:.4g}" for name, mean in means.items())
    return FloatingPointError(
        f"The loss and its gradient must be numbers; at step {step} they are not, with the data of {data}. Look at it, "
        f"or lower the learning rate. The last good checkpoint: {last or 'none'}. Received: {received}"
    )
