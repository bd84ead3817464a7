"""A server in a process of its own, which ends with the block that started it."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Server(NamedTuple):
    port: int
    process: subprocess.Popen
    seconds: float  # until it accepted connections


@contextlib.contextmanager
def served(*command: str) -> Iterator[Server]:
    """Run `python COMMAND --port PORT` with a free port, until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", *command, "--port", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"The server ended: {' '.join(command)}")
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.05)
        yield Server(port, process, time.perf_counter() - begin)
    finally:
        process.kill()
        process.wait()


def export_server(folder: str | Path, *options: str) -> contextlib.AbstractContextManager[Server]:
    """`keras-bert serve` for an export."""
    return served("-m", "keras_bert_cli", "serve", str(folder), *options)


def resident(pid: int) -> float:
    """The memory of a process in MB."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
