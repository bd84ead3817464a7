"""Files: each appears completely or not at all, and every error names the file."""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from keras_bert.lazy import tf
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
        with errors_about("write", path, temporary):
            if is_remote(path):
                yield temporary
                tf.io.gfile.rename(temporary, path, overwrite=True)
                return
            with partial(temporary, lambda new: open(new, "ab").close()):
                yield temporary
                os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):  # it may not have been created
            remove(temporary)
        raise


@contextmanager
def new_keras_file(path: str) -> Iterator[str]:
    """`new_file` for Keras, which writes only to a path that ends in .keras: one in a temporary folder."""
    path = output_file(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder or os.curdir):
        raise FileNotFoundError(f"The folder {folder} does not exist. Make it first. Received: {path}")
    with temporary_folder("save", path) as temporary:
        yield os.path.join(temporary, "model.keras")
        os.replace(os.path.join(temporary, "model.keras"), path)


@contextmanager
def temporary_folder(verb: str, path: str) -> Iterator[str]:
    """A folder beside `path` that is removed when the block ends; errors in the block are those of `errors_about`."""
    temporary = temporary_path(path)
    try:
        with errors_about(verb, path, temporary), partial(temporary, lambda new: os.makedirs(new, exist_ok=True)):
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def output_file(path: str | os.PathLike) -> str:
    """The file that `path` leads to, with links followed; an error if a folder, a device or a pipe is there."""
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"The output must be a file, not a folder, a device or a pipe. Name a file. Received: {path}")
    return os.path.realpath(path) if os.path.islink(path) else path


def check_ending(path: str | os.PathLike, endings: tuple[str, ...], what: str) -> None:
    """An error unless a path has one of these endings, in small or capital letters.

    what: how the error names the path, such as "--output".
    """
    if not os.fspath(path).lower().endswith(endings):
        raise ValueError(f"{what} must end in {', '.join(endings)}. Choose another name. Received: {path}")


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text file in UTF-8, with the line ends that the text has."""
    with new_file(path) as temporary, open_file(temporary, "wb") as file:
        file.write(text.encode("utf-8"))


def read_bytes(path: str | os.PathLike, begin: int = 0, size: int = -1) -> bytes:
    """The content of a file, or `size` bytes of it from the byte `begin` on."""
    path = os.fspath(path)
    with errors_about("read", path), open_file(path, "rb") as file:
        if begin:  # a pipe cannot seek
            file.seek(begin)
        return file.read(size)


def open_file(path: str, mode: str) -> Any:
    """Open a file of bytes, local or remote."""
    return tf.io.gfile.GFile(path, mode) if is_remote(path) else open(path, mode)


def size_of(path: str) -> int:
    """The size of a file, in bytes."""
    return tf.io.gfile.stat(path).length if is_remote(path) else os.path.getsize(path)


def read_text(path: str | os.PathLike) -> str:
    return read_bytes(path).decode("utf-8")


def sha256_of(path: str | os.PathLike) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    if is_remote(path):
        return hashlib.sha256(read_bytes(path)).hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def most_unpacked(path: str | os.PathLike) -> int:
    """How many bytes of weights a compressed file may hold: they hardly shrink, and little harm fits in 64 MiB."""
    return 4 * os.path.getsize(path) + (64 << 20)


def exists(path: str | os.PathLike) -> bool:
    return tf.io.gfile.exists(os.fspath(path)) if is_remote(path) else os.path.exists(path)


def names_in(folder: str | os.PathLike) -> list[str]:
    """The names in a folder, sorted, without those of temporary files; none if the folder does not exist."""
    if is_remote(folder):
        names = [name.rstrip("/") for name in tf.io.gfile.listdir(folder)] if tf.io.gfile.isdir(folder) else []
    else:
        names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name for name in names if not name.endswith(".partial"))


def make_folder(path: str | os.PathLike) -> None:
    """Create a folder and those above it, unless they exist."""
    with errors_about("create", path, temporary=""):  # an error may name any folder above
        tf.io.gfile.makedirs(path) if is_remote(path) else os.makedirs(path, exist_ok=True)


def remove(path: str | os.PathLike) -> None:
    """Remove a file, or a folder with everything in it."""
    with errors_about("remove", os.fspath(path)):
        if is_remote(path):
            tf.io.gfile.rmtree(path)
        elif os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


@contextmanager
def errors_about(verb: str, path: str | os.PathLike, temporary: str | None = None) -> Iterator[None]:
    """Errors of the system, of TensorFlow and of safetensors become OSErrors about `path`, unless they name another.

    temporary: the file or the folder that is written in its place.
    """
    path = os.fspath(path)
    try:
        yield
    except OSError as error:
        if error.errno is None or not _is_about(error, temporary):
            raise
        raise OSError(error.errno, _message(verb, path, os.strerror(error.errno))) from None
    except Exception as error:
        tensorflow, safetensors = map(sys.modules.get, ("tensorflow", "safetensors"))
        said = str(getattr(error, "message", error))
        if tensorflow is not None and isinstance(error, tensorflow.errors.OpError):  # it writes to this machine too
            if temporary is not None and os.path.isdir(temporary) and temporary not in said:
                raise  # it is not of a file in the folder
            reason = re.sub(rf"^.*{re.escape(temporary or path)}[^;]*; | \[Op:\w+\]$", "", said, flags=re.DOTALL)
            raise OSError(_message(verb, path, reason)) from None
        number = re.search(r"\(os error (\d+)\)$", said)
        if safetensors is None or not isinstance(error, safetensors.SafetensorError) or number is None:
            raise
        raise OSError(int(number[1]), _message(verb, path, os.strerror(int(number[1])))) from None


def _is_about(error: OSError, temporary: str | None) -> bool:
    """Whether an error names no file, or one in the temporary place, whose name means nothing to the user."""
    said = error.strerror or ""
    if error.filename is None and not said.startswith("Could not "):  # else it is one of `errors_about`
        return True
    return temporary is not None and temporary in (said if error.filename is None else os.fsdecode(error.filename))


_SPACE = "Free some space, check the permissions, or choose another path."
_REMEDIES = {
    "write": f"Nothing was changed. {_SPACE}",
    "save": _SPACE,
    "add to": _SPACE,
    "create": "Check the permissions, or choose another path.",
    "read": "Check the path and the permissions.",
    "remove": "Check the permissions.",
}


def _message(verb: str, path: str, reason: str) -> str:
    return f"Could not {verb} {path}: {reason}. {_REMEDIES[verb]}"
