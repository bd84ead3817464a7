"""A version of an export appears complete or not at all, on a disk or in a bucket."""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from keras_bert.lazy import tf
from keras_bert.storage import errors_about, exists, in_use_error, is_remote, locked_folder, new_parents
from keras_bert.weights.export_folder import EXTRA

PARTS = ("preprocess", "encoder", "text")  # the folders of one export, each with numbered versions
MANIFEST = os.path.join(EXTRA, "manifest.json")  # in each version

# A version is written in a folder beside these, which is renamed while its parts are moved to their places. The process
# holds a lock on it. Its names are not numbers, so TF Serving ignores them.
_WRITING, _PLACING = ".partial-", ".placing-"


def served_name(export: str, part: str) -> str:
    """The name under which a part is served: `text` has the name of the export itself."""
    return export if part == "text" else f"{export}-{part}"


@contextmanager
def new_version(
    directory: str | os.PathLike, version: int, overwrite: bool, finish: Callable[[], object] = lambda: None
) -> Iterator[Path]:
    """A folder to write PART/VERSION into; if nothing fails, they are then moved to their places in the directory.

    A version is all of its parts: `overwrite` removes every part of the version that it replaces.

    finish: called when the parts are in their places. If it fails, they are moved back. If the process is killed before
    it has returned, the next export removes the parts of a new version; of one that is replaced, they may be mixed.
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
        with tempfile.TemporaryDirectory() as temporary:
            with errors_about("write", temporary, temporary):
                yield Path(temporary)
            _upload(Path(temporary), places)
        finish()
        return
    placing = Path(directory, _PLACING + str(version))
    with folder_to_write(Path(directory), version) as made:
        if placing.exists():
            raise in_use_error(placing)
        check_free(version, places.values(), overwrite)
        with errors_about("write", directory, str(made)):
            yield made
        staged = made if any(map(exists, places.values())) else made.rename(placing)
        try:
            _put_all([(staged / part / str(version), Path(place)) for part, place in places.items()], finish)
        finally:  # if this folder remains, the next export removes it, but not the version
            staged.rename(made)


@contextmanager
def folder_to_write(directory: Path, version: int) -> Iterator[Path]:
    """An empty folder beside the versions, for this process only. It is removed at the end, unless it is gone."""
    made = directory / f"{_WRITING}{version}"
    _remove_dead(directory)
    with new_parents(made), locked_folder(made):
        if any(made.iterdir()):  # it is of a process that ended just now, or the file system has no locks
            raise in_use_error(made)
        try:
            yield made
        finally:
            if made.exists():
                shutil.rmtree(made)


def check_version(version: Any) -> None:
    if isinstance(version, bool) or not isinstance(version, int) or not 0 < version < 2**63:
        raise ValueError(
            f"`version` must be a whole number from 1 to 2**63 - 1, as in TF Serving. Received: {version!r}"
        )


def check_free(version: int, places: Iterable[str | os.PathLike], overwrite: bool) -> None:
    """Raise an error if a folder of this version exists, unless it may be replaced."""
    taken = [place for place in places if exists(place)]
    if taken and not overwrite:
        raise FileExistsError(
            f"Version {version} of this export exists. Give a higher version, or overwrite=True (--overwrite) to "
            f"replace it. Received: {taken[0]}, which exists"
        )


def _remove_dead(directory: Path) -> None:
    """Remove what killed exports left, and the parts of a version whose export was killed while it placed them."""
    for name in (_WRITING, _PLACING):
        for made in directory.glob(f"{name}*/"):
            with suppress(RuntimeError, OSError), locked_folder(made, make=False):
                version = made.name.removeprefix(name)
                for part in PARTS if name == _PLACING else ():
                    if (place := directory / part / version).exists():  # moved first: TF Serving never sees half of it
                        swap(place, made / part / version)
                shutil.rmtree(made)


def _put_all(moves: list[tuple[Path, Path]], finish: Callable[[], object]) -> None:
    """Swap new folders with those in their places, and call `finish`; if something fails, they are swapped back."""
    done = []
    try:
        for move in moves:
            swap(*move)
            done.append(move)
        finish()
    except BaseException:
        for back in done:
            swap(*back)
        raise


def swap(a: Path, b: Path) -> None:
    """Swap two folders, either of which may be missing."""
    if a.exists() and b.exists():
        _exchange(a, b)
    elif a.exists() or b.exists():
        old, new = (a, b) if a.exists() else (b, a)
        new.parent.mkdir(exist_ok=True)
        os.rename(old, new)


def _exchange(a: Path, b: Path) -> None:
    """Swap two folders, on Linux in one step."""
    at_fdcwd, rename_exchange = -100, 2
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    if renameat2 is not None and renameat2(at_fdcwd, os.fsencode(a), at_fdcwd, os.fsencode(b), rename_exchange) == 0:
        return
    aside = a.with_name("aside")
    os.rename(b, aside)
    try:
        os.rename(a, b)
    except BaseException:
        os.rename(aside, b)
        raise
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
