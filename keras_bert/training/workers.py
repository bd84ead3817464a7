"""Workers: those that do not respond are named, with the command that starts them again."""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from keras_bert.lazy import tf
from keras_bert.progress import reported_if_slow
from keras_bert.training.processes import answers, other_processes

SECONDS_UNTIL_NAMED = 10
_TASK = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+)")


def addresses() -> dict[tuple[str, int], str]:
    """The addresses of the workers that TF_CONFIG lists, the chief first; none if it is not set."""
    if not os.environ.get("TF_CONFIG"):
        return {}
    try:
        cluster = json.loads(os.environ["TF_CONFIG"]).get("cluster", {})
        return {(job, index): each for job in ("chief", "worker") for index, each in enumerate(cluster.get(job, []))}
    except (ValueError, AttributeError) as error:
        raise ValueError(
            'The environment variable TF_CONFIG must be JSON such as {"cluster": {"worker": ["host:port", ...]}, '
            f'"task": {{"type": "worker", "index": 0}}}}. Fix or unset it. Received: {os.environ["TF_CONFIG"]!r} '
            f"({error})"
        ) from None


@contextmanager
def waiting_for_workers(strategy: Any = None) -> Iterator[None]:
    """A block that other workers may keep waiting, or bring down, under a strategy of several or while it starts."""
    others = _others(strategy)
    if not others and strategy is not None:
        yield
        return

    def silent(seconds: float) -> str | None:
        found = [_named(*worker) for worker in others.items() if not answers(worker[1])]
        if not found and strategy is not None:
            return None  # a long step
        names = ", ".join(found) or "the other workers, which may belong to a run that is ending"
        return f"Waiting for {names}, for {seconds:.0f} seconds. {_remedy()}"

    # JAX raises RuntimeError, and so does TensorFlow for a strategy that is created too late.
    failures = (tf.errors.OpError,) if strategy is None else (tf.errors.OpError, RuntimeError, OSError)
    try:
        with reported_if_slow(silent, SECONDS_UNTIL_NAMED):
            yield
    except failures as error:
        lost = _lost(error, others)
        if not lost:
            raise
        raise ConnectionError(f"The run has lost {lost}. {_remedy()} Received: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """The first line of an error that says something; TensorFlow's begins with a traceback."""
    silent = ("Graph execution error:", "Detected at node", " ", "\t")
    lines = (line for line in str(error).splitlines() if line and not line.startswith(silent))
    return next(lines, type(error).__name__)


def _lost(error: Any, others: dict[tuple[str, int], str]) -> str:
    """The workers that an error is about: those that do not answer, or those that it names."""
    lost = {worker for worker, address in others.items() if not answers(address)}
    if isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError | tf.errors.CancelledError):
        lost |= {(job, int(index)) for job, index in _TASK.findall(str(error))} & others.keys()
    return ", ".join(_named(worker, others[worker]) for worker in sorted(lost))


def _others(strategy: Any) -> dict[tuple[str, int], str]:
    """The addresses of the workers but this one; none if the strategy has no others."""
    if isinstance(strategy, keras.distribution.DataParallel):
        return other_processes()
    if strategy is not None and not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return {}
    task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
    own = task.get("type"), int(task.get("index", 0))
    return {worker: address for worker, address in addresses().items() if worker != own}


def _named(worker: tuple[str, int], address: str) -> str:
    return f"{worker[0]} {worker[1]} ({address})"


def _remedy() -> str:
    program = os.path.basename(sys.argv[0]).replace("__main__.py", "keras-bert")
    command = shlex.join([program, *sys.argv[1:]])
    return (
        f"If a worker has stopped, start the same command again on every worker: {command}. The run resumes from its "
        "last checkpoint."
    )
