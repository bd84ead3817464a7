"""Locks: one process at a time in a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from keras_bert.storage.paths import is_remote


@contextmanager
def lock(path: str | os.PathLike, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock file at `path`, whose folder exists; the system frees it when the process ends, however it ends.

    Args:
        wait: whether to wait while another process holds it; otherwise that is an error. Remote paths have no locks.
    """
    if is_remote(path):
        yield
        return
    from filelock import FileLock, Timeout

    held = FileLock(path)
    try:
        held.acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise RuntimeError(
            f"{os.path.dirname(path)} is in use by another process. Wait until it ends, or choose another folder. "
            f"Received: {path}, which is locked"
        ) from None
    try:
        yield
    finally:
        held.release()
