"""A version of an export appears complete or not at all, on a disk or in a bucket."""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from keras_bert.lazy import tf
from keras_bert.storage import exists, is_remote, lock

PARTS = ("preprocess", "encoder", "text")  # the folders of one export, each with numbered versions


def served_name(export: str, part: str) -> str:
    """The name under which a part is served: `text` has the name of the export itself."""
    return export if part == "text" else f"{export}-{part}"


@contextmanager
def new_version(directory: str | os.PathLike, version: int, overwrite: bool) -> Iterator[Path]:
    """A folder to write PART/VERSION into; if nothing fails, they are then moved to their places in the directory.

    A version is all of its parts: `overwrite` removes every part of the version that it replaces.
    """
    directory = os.fspath(directory)
    places = {part: os.path.join(directory, part, str(version)) for part in PARTS}
    for folder in (directory, *map(os.path.dirname, places.values())):
        if tf.io.gfile.exists(folder) and not tf.io.gfile.isdir(folder):
            raise NotADirectoryError(
                f"{folder} is a file, and an export needs a folder there. Give another directory, or move the file. "
                f"Received: {folder}, which is a file"
            )
    if is_remote(directory):
        check_free(version, places.values(), overwrite)
        with tempfile.TemporaryDirectory() as made:
            yield Path(made)
            _upload(Path(made), places)
        return
    os.makedirs(directory, exist_ok=True)
    _remove_dead(directory)
    with _partial_folder(directory, version) as made:
        check_free(version, places.values(), overwrite)
        yield made
        _put_all([(made / part / str(version), Path(place)) for part, place in places.items()])


def check_free(version: int, places: Iterable[str | os.PathLike], overwrite: bool) -> None:
    """Raise an error if a folder of this version exists, unless it may be replaced."""
    taken = [place for place in places if exists(place)]
    if taken and not overwrite:
        raise FileExistsError(
            f"Version {version} of this export exists. Give a higher version, or overwrite=True (--overwrite) to "
            f"replace it. Received: {taken[0]}, which exists"
        )


@contextmanager
def _partial_folder(directory: str, version: int) -> Iterator[Path]:
    """A folder for this version that no other process uses; its name is not a number, so TF Serving ignores it."""
    made = Path(directory) / f".partial-{version}"
    lock_file = Path(f"{made}.lock")
    with lock(lock_file):
        made.mkdir()
        try:
            yield made
        finally:
            shutil.rmtree(made)
            lock_file.unlink()


def _remove_dead(directory: str) -> None:
    """Remove what exports left that were killed: the system has freed their locks."""
    for lock_file in Path(directory).glob(".partial-*.lock"):
        with suppress(RuntimeError), lock(lock_file):
            shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
            lock_file.unlink()


def _put_all(moves: list[tuple[Path, Path]]) -> None:
    """Swap new folders with those in their places; if one cannot be swapped, the others are swapped back."""
    for number, (new, place) in enumerate(moves):
        try:
            _swap(new, place)
        except OSError:
            for back in moves[:number]:
                _swap(*back)
            raise


def _swap(a: Path, b: Path) -> None:
    """Swap two folders, either of which may be missing."""
    if a.exists() and b.exists():
        _exchange(a, b)
    elif a.exists() or b.exists():
        old, new = (a, b) if a.exists() else (b, a)
        new.parent.mkdir(exist_ok=True)
        os.rename(old, new)


def _exchange(a: Path, b: Path) -> None:
    """Swap two folders, on Linux in one step."""
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is not None and renameat2(here, os.fsencode(a), here, os.fsencode(b), swap) == 0:
        return
    aside = a.with_name("aside")
    os.rename(b, aside)
    os.rename(a, b)
    os.rename(aside, a)


def _upload(made: Path, places: dict[str, str]) -> None:
    """Copy the files, saved_model.pb last: without it TensorFlow does not see a model.

    A bucket renames a folder file by file, so uploading under another name first would gain nothing. TF Serving sees
    the folder of a version with its first file, but it loads only what models.config names, which the command line
    writes after all files.
    """
    for part, place in places.items():
        if tf.io.gfile.exists(place):
            tf.io.gfile.rmtree(place)
        files = [file for file in (made / part).rglob("*") if file.is_file()]
        for file in sorted(files, key=lambda file: file.name == "saved_model.pb"):
            target = os.path.join(os.path.dirname(place), file.relative_to(made / part).as_posix())
            tf.io.gfile.makedirs(os.path.dirname(target))
            tf.io.gfile.copy(str(file), target)
