"""Files and folders that are being written: locked while their process lives, removed by the next one if it died."""

import glob
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

try:
    import fcntl
except ImportError:  # on Windows nothing is locked, and what a dead process left stays
    fcntl = None  # type: ignore[assignment]


@contextmanager
def partial(temporary: str, make: Callable[[str], object]) -> Iterator[None]:
    """Make the file or folder at a path of `temporary_path`, and hold a lock on it until the block ends.

    The system frees the lock when a process ends, however it ends. What processes left that were killed while they
    wrote the same file or folder is removed first.
    """
    if fcntl is None:
        make(temporary)
        yield
        return
    _remove_dead(temporary)
    while True:
        make(temporary)
        handle = os.open(temporary, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if same_file(handle, temporary):  # otherwise it was removed before it was locked
                yield
                return
        finally:
            os.close(handle)


def same_file(handle: int, path: str | os.PathLike) -> bool:
    """Whether an open file or folder is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_dead(temporary: str) -> None:
    begin = re.sub(r"\d+\.partial$", "", temporary)
    for found in glob.glob(glob.escape(begin) + "*.partial"):
        if re.fullmatch(r"\d+\.partial", found[len(begin) :]):
            with suppress(OSError):  # its process lives, or another one has removed it
                handle = os.open(found, os.O_RDONLY)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(found) if os.path.isdir(found) else os.unlink(found)
                finally:
                    os.close(handle)
