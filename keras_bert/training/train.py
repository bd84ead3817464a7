"""train: the loop of pretraining, on one device or many, with checkpoints from which a killed run resumes."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

import keras

from keras_bert.training.device_peak import device_peak
from keras_bert.training.loop_options import LoopOptions
from keras_bert.training.metrics_log import MetricsLog, was_validated
from keras_bert.training.strategy import check_batch_size, is_chief
from keras_bert.training.workers import waiting_for_workers

ENGINE = "jax_engine" if keras.backend.backend() == "jax" else "orbit_engine"  # they have the same names

try:
    engine: Any = import_module(f"keras_bert.training.{ENGINE}")
except ModuleNotFoundError as error:
    raise ImportError(
        f"Pretraining and training on several devices need Orbit. Run: pip install 'keras3-bert[pretrain]'. "
        f"Received: {error}"
    ) from error

logger = logging.getLogger("keras_bert")

BatchesFrom = Callable[[int, tuple[int, int]], Any]


def train(
    model: Any,
    optimizer: Any,
    batches: BatchesFrom,
    *,
    strategy: Any,
    steps: int,
    batch_size: int,
    total_steps: int | None = None,
    longer_by: float = 0.0,
    accumulate: int = 1,
    clip_norm: float = 1.0,
    loop: LoopOptions = LoopOptions(),  # noqa: B008  # it is frozen
    directory: str | None = None,
    on_start: Callable[[], None] = lambda: None,
    validation: Any = None,
    seq_length: int | None = None,
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
    total_steps: the last step of the run, if this is only a phase of it. longer_by: how many more steps the later
        phases are worth, since their batches or rows are larger, for the time left in the log.
    on_start: called when the last checkpoint has been read.
    validation: like `batches`, but with an end.
    seq_length: of a row, for the share of padding in the log.
    where: returns the place of a step's data, which is named if the loss is not finite.
    """
    total_steps = total_steps or steps
    check_batch_size(batch_size, strategy, accumulate)
    engine.check_scope([*model.trainable_variables, optimizer.iterations], strategy)
    with strategy.scope():
        step = keras.Variable(0, dtype="int", trainable=False, aggregation="only_first_replica")
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
    checkpoints = None
    if directory is not None:
        state = {"step": [step], "model": model.variables, "optimizer": optimizer.variables}
        checkpoints = engine.Checkpoints(
            f"{directory}/checkpoints", state, strategy=strategy, keep=loop.keep, keep_every_hours=loop.keep_every_hours
        )
        checkpoints.restore()
    on_start()
    now = int(step.numpy())
    validate_every = loop.validate_every if validation else steps

    def is_due() -> bool:
        return bool(validation) and (now == steps or now % validate_every == 0)

    missed = 0 < now <= steps and is_due() and not was_validated(directory, now)  # it was skipped for a signal
    if now >= steps and not missed:
        return

    dataset = engine.distribute(batches, strategy, batch_size, start=now)
    longest = min(loop.steps_per_loop, steps, loop.checkpoint_every, validate_every)
    options = {"strategy": strategy, "accumulate": accumulate, "clip_norm": clip_norm, "longest": longest}
    trainer = engine.Trainer(model, optimizer, dataset, step, **options)
    validated = validation and mean_measures(model, validation, strategy=strategy, batch_size=batch_size)
    log = MetricsLog(
        directory if is_chief(strategy) else None,
        start=now,
        steps=total_steps,
        longer_by=longer_by,
        batch_size=batch_size,
        seq_length=seq_length,
        peak=device_peak(strategy),
        flops_per_token=flops_per_token,
    )
    of_all_workers = engine.gathering(strategy)

    def validate() -> None:
        with waiting_for_workers(strategy):
            means = validated()
        log(now, {f"validation_{name}": mean for name, mean in means.items()})

    def has_to_stop() -> bool:
        with waiting_for_workers(strategy):
            return bool(of_all_workers(bool(asked_to_stop)).any())  # all stop at the same step

    def stopped() -> BaseException:
        logger.info("Stopped by a signal at step %d. Run the same command again to resume.", now)
        return KeyboardInterrupt() if signal.SIGINT in asked_to_stop else SystemExit(128 + signal.SIGTERM)

    saving = checkpoints.saving() if checkpoints else nullcontext()
    with log, _signals(directory is not None) as asked_to_stop, saving:
        if missed:
            validate()
        while now < steps:
            goal = min(now + loop.steps_per_loop, steps, _next(now, loop.checkpoint_every), _next(now, validate_every))
            rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
            began = time.perf_counter()
            with waiting_for_workers(strategy):
                means = trainer.train(goal - now)
            seconds = time.perf_counter() - began
            if (bad := means.pop("first_bad")) >= 0:
                raise _not_finite(bad, means, f"{now + 1} to {goal}", where(bad), checkpoints)
            log(goal, {**means, "learning_rate": rate}, loop_steps=goal - now, seconds=seconds)
            now = goal
            stop = has_to_stop()
            # Before the checkpoint of this step, so that a resumed run repeats a validation that was interrupted.
            if is_due() and not stop:
                validate()
            if checkpoints and (stop or now == steps or now % loop.checkpoint_every == 0):
                log.flush()
                with waiting_for_workers(strategy):
                    checkpoints.save(now, wait=stop or now == steps)
            if stop:
                raise stopped()
        if steps < total_steps and has_to_stop():  # the signal came while the last step was validated
            raise stopped()


def mean_measures(model: Any, batches: Any, *, strategy: Any, batch_size: int) -> Callable[[], dict[str, float]]:
    """A function: the means of a model's measures over all batches; `batches` is as in `train`, but with an end."""
    return engine.Evaluator(model, engine.distribute(batches, strategy, batch_size), strategy=strategy).evaluate


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


def _not_finite(bad: int, means: dict[str, float], steps: str, data: str, checkpoints: Any) -> FloatingPointError:
    """bad: the number of steps before the bad one. means: over these steps."""
    last = checkpoints.latest if checkpoints else None
    received = ", ".join(f"{name}={mean:.4g}" for name, mean in means.items())
    return FloatingPointError(
        f"The loss or its gradient is not finite at step {bad + 1}, with the data of {data}. Check that data, or "
        f"lower the learning rate. The last good checkpoint: {last or 'none'}. Received: {received} (means of steps "
        f"{steps})"
    )
