"""Python in a process of its own, for what must be set before a backend starts."""

import multiprocessing
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

# A server that has imported all, which takes seconds, and started nothing; each process is a fork of it.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tensorflow_text", "keras_bert.pretraining.run.pretrain", "pytest"])


def fork(function: Callable, *arguments: Any) -> Any:
    """What a function gives that a module has by name; its error is raised here."""
    with ProcessPoolExecutor(1, FORKS) as pool:
        return pool.submit(function, *arguments).result()


def python(code: str, *arguments: str, **environment: str) -> str:
    """What the code prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def one_process(**environment: str) -> Iterator[Callable]:
    """A call like `fork`, but all calls run in one process, which starts with these variables."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", **environment}.items():
                patch.setenv(name, value)
            pool.submit(os.getpid).result()  # starts it
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("localhost", 0)) as found:
        return found.getsockname()[1]
