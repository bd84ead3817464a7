"""train: the loop of pretraining, on one device or many, with checkpoints from which a killed run resumes."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from keras_bert.training.checkpoints import Checkpoints, native
from keras_bert.training.device_peak import device_peak
from keras_bert.training.metrics_log import MetricsLog
from keras_bert.training.strategy import check_batch_size, is_chief

try:
    from keras_bert.training.orbit_engine import Evaluator, Trainer
except ModuleNotFoundError as error:
    raise ImportError(
        f"Pretraining and training on several devices need Orbit. Run: pip install 'keras3-bert[pretrain]'. "
        f"Received: {error}"
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
    """Train until step `steps`; with a directory, resume from its last checkpoint.

    With a directory, SIGTERM writes a checkpoint and ends the process with code 143, as is usual in a shell. Ctrl-C
    does the same with a KeyboardInterrupt; a second Ctrl-C stops at once.

    model: has `measures(batch, training)`, which returns a dict of `Measure` by name, and `objective`, the names of
        those whose means add up to the loss. Built in the strategy's scope.
    batches: called with (step, (i, n)); returns a dataset that starts with the batch of this step and holds part i of
        the n equal parts of each global batch. A pure function, so that a resumed run gets the same batches.
    batch_size: of the global batch. The replicas share it, and each splits its rows into `accumulate` parts.
    total_steps: the last step of the run, if this is only a phase of it.
    steps_per_loop: how many steps run in one graph, without a log line, checkpoint or signal in between.
    keep: how many of the latest checkpoints are kept. keep_every_hours: of the older ones, one in so many hours is.
    validation: like `batches`, but with an end.
    where: returns the place of a step's data, which is named if the loss is not finite.
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
    validated = validation and mean_measures(model, validation, strategy=strategy, batch_size=batch_size)
    log = MetricsLog(
        directory if is_chief(strategy) else None,
        start=now,
        steps=total_steps or steps,
        peak=device_peak(strategy),
        flops_per_token=flops_per_token,
    )
    on_any_worker = _agreement(strategy)
    with log, _signals(directory is not None) as asked_to_stop:
        while now < steps:
            goal = min(now + steps_per_loop, steps, _next(now, checkpoint_every), _next(now, validate_every))
            began = time.perf_counter()
            means = trainer.train(tf.constant(goal - now))
            seconds = time.perf_counter() - began
            if (bad := means.pop("first_bad")) >= 0:
                raise _not_finite(bad, means, where(bad), checkpoints)
            log(goal, means, loop_steps=goal - now, seconds=seconds)
            now = goal
            stop = on_any_worker(asked_to_stop)
            # Before the checkpoint of this step, so that a resumed run repeats a validation that was interrupted.
            if validated and not stop and (now == steps or now % validate_every == 0):
                log(now, {f"validation_{name}": mean for name, mean in validated().items()})
            if checkpoints and (stop or now == steps or now % checkpoint_every == 0):
                checkpoints.save(now)
            if stop:
                logger.info("Stopped by a signal at step %d. Run the same command again to resume.", now)
                raise KeyboardInterrupt if signal.SIGINT in asked_to_stop else SystemExit(128 + signal.SIGTERM)


def mean_measures(model: Any, batches: Any, *, strategy: Any, batch_size: int) -> Callable[[], dict[str, float]]:
    """A function: the means of a model's measures over all batches; `batches` is as in `train`, but with an end."""
    evaluator = Evaluator(model, distribute(batches, strategy, batch_size), strategy=strategy)
    return lambda: evaluator.evaluate(tf.constant(-1))


def distribute(batches: Batches, strategy: Any, batch_size: int, start: int = 0) -> Any:
    """The dataset in which each replica has its rows of each global batch, starting at step `start`."""
    check_batch_size(batch_size, strategy)

    def of_worker(context: Any) -> Any:
        dataset = batches(start, (context.input_pipeline_id, context.num_input_pipelines))
        if context.num_replicas_in_sync > context.num_input_pipelines:
            share = batch_size // context.num_replicas_in_sync
            dataset = dataset.rebatch(share, drop_remainder=True)  # a TPU needs static shapes
        return dataset.prefetch(tf.data.AUTOTUNE)

    return strategy.distribute_datasets_from_function(of_worker)


def _check_scope(variables: Iterable[Any], strategy: Any) -> None:
    for variable in variables:
        if not strategy.extended.variable_created_in_scope(native(variable)):
            raise ValueError(
                f"{variable.path} was not built in the strategy's scope. Build the model and the optimizer under "
                f"`with strategy.scope():`. Received: {variable.path}"
            )


def _next(step: int, every: int) -> int:
    """The next multiple of `every`."""
    return step - step % every + every


@contextmanager
def _signals(wanted: bool) -> Iterator[list[int]]:
    """A list to which SIGTERM and the first Ctrl-C are added, if wanted and in the main thread."""
    received: list[int] = []
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(number: int, _: Any) -> None:
        if signal.SIGINT in received:
            raise KeyboardInterrupt
        received.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _agreement(strategy: Any) -> Callable[[Any], bool]:
    """A function: whether a flag is set on any worker. All must stop at the same step, or they block each other."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return bool
    total = tf.function(lambda flag: strategy.reduce("SUM", strategy.run(lambda: flag), axis=None))
    return lambda flag: bool(total(tf.constant(float(bool(flag)))) > 0)


def _not_finite(step: int, means: dict[str, float], data: str, checkpoints: Checkpoints | None) -> FloatingPointError:
    last = checkpoints.latest if checkpoints else None
    received = ", ".join(f"{name}={mean:.4g}" for name, mean in means.items())
    return FloatingPointError(
        f"The loss or its gradient is not finite at step {step}, with the data of {data}. Check that data, or lower "
        f"the learning rate. The last good checkpoint: {last or 'none'}. Received: {received}"
    )
