"""Workers: those that do not respond are named, with the command that starts them again."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from keras_bert.installation import has_tensorflow
from keras_bert.lazy import tf
from keras_bert.progress import reported_if_slow
from keras_bert.training import watcher
from keras_bert.training.processes import other_processes
from keras_bert.training.tf_config import addresses
from keras_bert.training.watcher import silent, waiting_for

SECONDS_UNTIL_NAMED = 10
_TASK = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+)")


@contextmanager
def waiting_for_workers(strategy: Any) -> Iterator[None]:
    """A block that other workers may keep waiting, or bring down, if the strategy has any."""
    others = _others(strategy)
    if not others:
        yield
        return

    def report(seconds: float) -> str | None:
        names = silent(others)
        return waiting_for(names, seconds, _remedy()) if names else None  # else it is a long step

    with reported_if_slow(report, SECONDS_UNTIL_NAMED), _naming_the_lost(others, RuntimeError, OSError):  # of JAX
        yield


@contextmanager
def starting_with_workers() -> Iterator[None]:
    """A block in which TensorFlow waits until the workers in TF_CONFIG have started, and no thread of Python can run.

    A program reports those that do not respond. Ctrl-C ends the process. SIGTERM does not, since TensorFlow catches it.
    """
    others = _others()
    remedy = f"{_remedy()} To end this process, press Ctrl-C or run: kill -9 {os.getpid()}"
    program = [sys.executable, "-I", watcher.__file__, json.dumps([others, SECONDS_UNTIL_NAMED, remedy])]
    with (
        _ended_by_ctrl_c(),
        subprocess.Popen(program, stdin=subprocess.PIPE),  # closes the pipe, by which the program ends
        _naming_the_lost(others),
    ):
        yield


@contextmanager
def _naming_the_lost(others: dict[str, str], *failures: type[Exception]) -> Iterator[None]:
    """A block whose failures are TensorFlow's and those given; those by a worker that was lost name it."""
    if has_tensorflow():
        failures = (*failures, tf.errors.OpError)
    try:
        yield
    except failures as error:
        lost = _lost(error, others)
        if not lost:
            raise
        raise ConnectionError(f"The run has lost {lost}. {_remedy()} Received: {_reason(error)}") from error


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """A block that Ctrl-C ends at once, in the main thread: Python's own handler would wait until Python runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _reason(error: Exception) -> str:
    """The first line of an error that says something; TensorFlow's begins with a traceback."""
    empty = ("Graph execution error:", "Detected at node", " ", "\t")
    lines = (line for line in str(error).splitlines() if line and not line.startswith(empty))
    return next(lines, type(error).__name__)


def _lost(error: Any, others: dict[str, str]) -> str:
    """The names of the workers that an error is about: those that do not answer, or those that it names."""
    lost = silent(others)
    if type(error).__name__ in ("UnavailableError", "AbortedError", "CancelledError"):  # of TensorFlow
        tasks = tuple(f"{job} {index} (" for job, index in _TASK.findall(str(error)))
        lost = [name for name in others if name in lost or name.startswith(tasks)]
    return ", ".join(lost)


def _others(strategy: Any = None) -> dict[str, str]:
    """The addresses of the workers but this one by names such as "worker 1 (b:2222)"; none if there are no others.

    strategy: None if it is not made yet.
    """
    if isinstance(strategy, keras.distribution.DataParallel):
        found = other_processes()
    elif strategy is None or isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
        own = task.get("type"), int(task.get("index", 0))
        found = {worker: address for worker, address in addresses().items() if worker != own}
    else:
        found = {}
    return {f"{job} {index} ({address})": address for (job, index), address in found.items()}


def _remedy() -> str:
    program = os.path.basename(sys.argv[0]).replace("__main__.py", "keras-bert")
    command = shlex.join([program, *sys.argv[1:]])
    return (
        f"If a worker has stopped, start the same command again on every worker: {command}. The run resumes from its "
        "last checkpoint."
    )
