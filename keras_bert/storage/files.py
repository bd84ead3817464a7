"""Files: each appears completely or not at all, and every error names the file."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from keras_bert.storage.partials import partial
from keras_bert.storage.paths import is_remote, temporary_path


@contextmanager
def new_file(path: str | os.PathLike) -> Iterator[str]:
    """A temporary path to write to, which is renamed to `path` when the block ends without an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_file(f"{folder}/words.txt") as temporary, open(temporary, "w") as file:
    ...         _ = file.write("film")
    ...     os.listdir(folder)
    ['words.txt']
    """
    path = output_file(path)
    temporary = temporary_path(path)
    try:
        with _errors_about("write", path, temporary):
            if is_remote(path):
                yield temporary
                _gfile().rename(temporary, path, overwrite=True)
                return
            with partial(temporary, lambda new: open(new, "ab").close()):
                yield temporary
                os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):  # it may not have been created
            remove(temporary)
        raise


def output_file(path: str | os.PathLike) -> str:
    """The file that `path` leads to, with links followed; an error if a folder, a device or a pipe is there."""
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"The output must be a file, not a folder, a device or a pipe. Name a file. Received: {path}")
    return os.path.realpath(path) if os.path.islink(path) else path


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text file in UTF-8, with the line ends that the text has."""
    with new_file(path) as temporary, _open(temporary, "wb") as file:
        file.write(text.encode("utf-8"))


def read_bytes(path: str | os.PathLike) -> bytes:
    path = os.fspath(path)
    with _errors_about("read", path), _open(path, "rb") as file:
        return file.read()


def read_text(path: str | os.PathLike) -> str:
    return read_bytes(path).decode("utf-8")


def exists(path: str | os.PathLike) -> bool:
    return _gfile().exists(os.fspath(path)) if is_remote(path) else os.path.exists(path)


def names_in(folder: str | os.PathLike) -> list[str]:
    """The names in a folder, sorted, without those of temporary files; none if the folder does not exist."""
    if is_remote(folder):
        gfile = _gfile()
        names = [name.rstrip("/") for name in gfile.listdir(folder)] if gfile.isdir(folder) else []
    else:
        names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name for name in names if not name.endswith(".partial"))


def make_folder(path: str | os.PathLike) -> None:
    """Create a folder and those above it, unless they exist."""
    with _errors_about("create", os.fspath(path)):
        _gfile().makedirs(path) if is_remote(path) else os.makedirs(path, exist_ok=True)


def remove(path: str | os.PathLike) -> None:
    """Remove a file, or a folder with everything in it."""
    with _errors_about("remove", os.fspath(path)):
        if is_remote(path):
            _gfile().rmtree(path)
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


@contextmanager
def _errors_about(verb: str, path: str, temporary: str | None = None) -> Iterator[None]:
    """TensorFlow's errors, and the system's that name no file or the temporary one, become OSErrors about `path`."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, temporary):
            raise
        raise OSError(error.errno, _message(verb, path, os.strerror(error.errno))) from None
    except Exception as error:
        tensorflow = sys.modules.get("tensorflow")  # TFRecords are written by it to this machine too
        if tensorflow is None or not isinstance(error, tensorflow.errors.OpError):
            raise
        reason = error.message.removeprefix(f"{temporary or path}; ")
        raise OSError(_message(verb, path, reason)) from None


_REMEDIES = {
    "write": "Nothing was changed. Free some space, check the permissions, or choose another path.",
    "create": "Check the permissions, or choose another path.",
    "read": "Check the path and the permissions.",
    "remove": "Check the permissions.",
}


def _message(verb: str, path: str, reason: str) -> str:
    return f"Could not {verb} {path}: {reason}. {_REMEDIES[verb]}"


def _open(path: str, mode: str) -> Any:
    return _gfile().GFile(path, mode) if is_remote(path) else open(path, mode)


def _gfile() -> Any:
    import tensorflow as tf

    return tf.io.gfile
