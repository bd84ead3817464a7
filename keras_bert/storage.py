"""Small files, local or remote: each appears whole or not at all, and what fails is an OSError."""

import atexit
import functools
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def is_remote(path: str) -> bool:
    """Whether TensorFlow's file systems have it: gs://, ram:// and their kin."""
    return "://" in path


@contextmanager
def new_file(path: str) -> Iterator[str]:
    """A temporary name beside `path` to write to; it becomes `path` when all went well."""
    gfile, errors = _gfile()
    path = behind_links(path)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.partial")
    try:
        yield temporary
        gfile.rename(temporary, path, overwrite=True)
    except BaseException as error:
        with suppress(errors):  # there may be none yet
            gfile.remove(temporary)
        if isinstance(error, errors):
            raise OSError(
                f"Writing must succeed. Make room, or choose another place. Received: {path} ({error.message})"
            ) from None
        raise


@contextmanager
def new_local_file(path: str | os.PathLike) -> Iterator[Path]:
    """The same of a file on this machine, where there may be no TensorFlow."""
    path = Path(behind_links(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def behind_links(path: str | os.PathLike) -> str:
    """The file that a path leads to, to be replaced at once; an error where it is a folder, a device or a pipe."""
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"An output must be a file, and no folder, device or pipe. Name another. Received: {path}")
    return os.path.realpath(path) if os.path.islink(path) else path


# What TensorFlow's readers take for a pattern, even in the path of a file that is there.
_PATTERN = frozenset("*?[\\")


def literal_path(path: str | os.PathLike) -> str:
    """Another path to a checkpoint, a SavedModel or a folder, for what in TensorFlow reads paths as patterns.

    With `[` or a backslash in it TensorFlow would find nothing there, and with `*` or `?` perhaps the files of others.
    Where there are none of these, it is the path itself; else one of links, which last as long as this process.
    """
    path = os.fspath(path)
    if not _PATTERN & set(path):
        return path
    if is_remote(path):
        raise ValueError(
            f"TensorFlow cannot read a checkpoint from a remote path with * ? [ or \\ in it. Choose another. "
            f"Received: {path}"
        )
    folder, name = os.path.split(os.path.abspath(path))
    links = os.path.join(_links(os.getpid()), hashlib.sha256(os.fsencode(os.path.join(folder, name))).hexdigest()[:16])
    os.makedirs(links, exist_ok=True)
    for found in os.listdir(folder):  # of a checkpoint's prefix, its .index and .data files
        link = os.path.join(links, "path" + found[len(name) :])
        if found.startswith(name) and not os.path.lexists(link):
            os.symlink(os.path.join(folder, found), link)
    return os.path.join(links, "path")


@functools.cache
def _links(process: int) -> str:
    """A temporary folder of this process, and not of one that was forked from it."""
    usual = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="keras-bert-", dir="/tmp" if _PATTERN & set(usual) else usual)
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == process else None)
    return folder


def matching(pattern: str) -> list[str]:
    """The files that a path or pattern names, sorted; folders that exist may have `[`, `*` or `?` in their names."""
    if is_remote(pattern):
        gfile = _gfile()[0]
        return [pattern] if gfile.exists(pattern) else sorted(gfile.glob(pattern))
    if os.path.isfile(pattern):
        return [pattern]
    folder = os.path.dirname(pattern)
    while not os.path.isdir(folder or "."):
        folder = os.path.dirname(folder)
    return sorted(filter(os.path.isfile, glob.glob(glob.escape(folder) + pattern[len(folder) :])))


def write_text(path: str, text: str) -> None:
    with new_file(path) as temporary, _gfile()[0].GFile(temporary, "w") as file:
        file.write(text)


def write_json(path: str, data: dict[str, Any]) -> None:
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def read_text(path: str) -> str:
    return _read(path).decode("utf-8")


def _read(path: str) -> bytes:
    gfile, errors = _gfile()
    try:
        with gfile.GFile(path, "rb") as file:
            return file.read()
    except errors as error:
        raise OSError(f"Reading must succeed. Received: {path} ({error.message})") from None


def read_json(path: str) -> dict[str, Any]:
    """The object in a JSON file; {} where there is no file."""
    return json_object(_read(path), path) if exists(path) else {}


def json_object(content: bytes, path: str | os.PathLike) -> dict[str, Any]:
    """The object that a JSON file holds, wherever it was read; an error where it holds anything else."""
    name = os.path.basename(path)
    try:
        data = json.loads(content.decode("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{name} must be JSON. Get or write it again. Received: {path} ({error})") from None
    if not isinstance(data, dict):
        raise ValueError(
            f"{name} must hold one JSON object. Get or write it again. Received: {type(data).__name__} in {path}"
        )
    return data


def exists(path: str) -> bool:
    return _gfile()[0].exists(path)


def names_in(folder: str) -> list[str]:
    """What a folder holds, sorted, but for temporary files; nothing where there is no folder."""
    gfile, _ = _gfile()
    if not gfile.isdir(folder):
        return []
    return sorted(name.rstrip("/") for name in gfile.listdir(folder) if not name.endswith(".partial"))


def make_folder(path: str) -> None:
    gfile, errors = _gfile()
    try:
        gfile.makedirs(path)
    except errors as error:
        raise OSError(f"The folder must be one that can be made. Received: {path} ({error.message})") from None


def remove(path: str) -> None:
    """Take away a file or a whole folder."""
    _gfile()[0].rmtree(path)


def _gfile() -> tuple[Any, Any]:
    import tensorflow as tf

    return tf.io.gfile, tf.errors.OpError
