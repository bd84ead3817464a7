"""Locks: one process at a time in a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from keras_bert.storage.partials import fcntl, same_file
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
        raise in_use_error(path) from None
    try:
        yield
    finally:
        held.release()


@contextmanager
def locked_folder(path: str | os.PathLike, *, make: bool = True) -> Iterator[None]:
    """Hold a lock on a folder, even if it is renamed; the system frees it when the process ends, however it ends.

    Args:
        make: create the folder if it does not exist. Otherwise a file system without locks is an error, since nobody
            knows there whether another process holds the lock.
    """
    while True:
        if make:
            os.makedirs(path, exist_ok=True)
        if fcntl is None:  # on Windows
            if not make:
                raise in_use_error(path)
            yield
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise in_use_error(path) from None
            except OSError:
                if not make:
                    raise
            if same_file(handle, path):  # otherwise it was removed or renamed before it was locked
                yield
                return
        finally:
            os.close(handle)


def in_use_error(path: str | os.PathLike) -> RuntimeError:
    """The error about a lock that another process holds."""
    return RuntimeError(
        f"{os.path.dirname(path) or '.'} is in use by another process. Wait until it ends, or choose another folder. "
        f"If no such process is running, delete {path}. Received: {path}, which is locked"
    )
