"""Workers of tf.distribute: those that do not respond are named, with the command that starts them again."""

import json
import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keras_bert.lazy import tf
from keras_bert.progress import reported_if_slow

SECONDS_UNTIL_NAMED = 10
SECONDS_TO_ANSWER = 2
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
    if strategy is not None and not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        yield
        return

    def silent(seconds: float) -> str | None:
        found = [_named(*worker) for worker in _others().items() if not _answers(worker[1])]
        if not found and strategy is not None:
            return None  # a long step
        names = ", ".join(found) or "the other workers, which may belong to a run that is ending"
        return f"Waiting for {names}, for {seconds:.0f} seconds. {_remedy()}"

    try:
        with reported_if_slow(silent, SECONDS_UNTIL_NAMED):
            yield
    except tf.errors.OpError as error:
        lost = _lost(error)
        if not lost:
            raise
        reason = next(line for line in str(error).splitlines() if line not in ("", "Graph execution error:"))
        raise ConnectionError(f"The run has lost {lost}. {_remedy()} Received: {reason}") from error


def _lost(error: Any) -> str:
    """The workers that an error is about: those that do not answer, or those that it names."""
    others = _others()
    lost = {worker for worker, address in others.items() if not _answers(address)}
    if isinstance(error, tf.errors.UnavailableError | tf.errors.AbortedError | tf.errors.CancelledError):
        lost |= {(job, int(index)) for job, index in _TASK.findall(str(error))} & others.keys()
    return ", ".join(_named(worker, others[worker]) for worker in sorted(lost))


def _others() -> dict[tuple[str, int], str]:
    """The addresses of the workers but this one."""
    task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
    own = task.get("type"), int(task.get("index", 0))
    return {worker: address for worker, address in addresses().items() if worker != own}


def _named(worker: tuple[str, int], address: str) -> str:
    return f"{worker[0]} {worker[1]} ({address})"


def _answers(address: str) -> bool:
    """Whether somebody listens at an address; a worker does as long as its process runs."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
    except OSError:
        return False
    return True


def _remedy() -> str:
    command = shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])
    return (
        "If it has stopped, start the same command again on every worker; the run resumes from its last checkpoint: "
        f"{command}."
    )
