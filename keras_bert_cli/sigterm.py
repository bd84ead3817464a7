"""How a command ends when another process stops it with SIGTERM."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the program through the end of every `with`, so that folders and processes are removed."""
    before = signal.getsignal(signal.SIGTERM)
    if before is not _stop:  # otherwise a `with` around this one does the same
        signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        if before is not _stop:
            signal.signal(signal.SIGTERM, before)


def _stop(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one does not interrupt the removal
    sys.exit(128 + signal.SIGTERM)
