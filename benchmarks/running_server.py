"""A server in a process of its own, which ends with the block that started it."""

import contextlib
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

    @property
    def resident(self) -> float:
        """Its memory in MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1000


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
