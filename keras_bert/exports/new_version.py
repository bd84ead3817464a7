"""A version of an export appears whole or not at all, on a disk or in a bucket."""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_bert.storage import is_remote

PARTS = ("preprocess", "encoder", "text")  # the folders of one export, each with numbered versions


def served_name(export: str, part: str) -> str:
    """The name under which a part is served: the export's own is that of what takes text."""
    return export if part == "text" else f"{export}-{part}"


@contextmanager
def new_version(directory: str | os.PathLike, version: int, overwrite: bool) -> Iterator[Path]:
    """A folder to write PART/VERSION into; when all went well these take their places in the directory.

    A version is all of its parts: with `overwrite` none of an older one stays.
    """
    import tensorflow as tf

    directory = os.fspath(directory)
    places = {part: os.path.join(directory, part, str(version)) for part in PARTS}
    for folder in (directory, *map(os.path.dirname, places.values())):
        if tf.io.gfile.exists(folder) and not tf.io.gfile.isdir(folder):
            raise NotADirectoryError(
                "An export is a folder with a folder for each of its parts. Give another place, or move the file "
                f"that is there. Received: {folder}, which is a file"
            )
    taken = [place for place in places.values() if tf.io.gfile.exists(place)]
    if taken and not overwrite:
        raise FileExistsError(
            "A version is exported once. Give a higher version, or overwrite=True (--overwrite) to replace it. "
            f"Received: {taken[0]}, which exists"
        )
    if is_remote(directory):
        with tempfile.TemporaryDirectory() as made:
            yield Path(made)
            _upload(Path(made), places)
        return
    os.makedirs(directory, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".partial-") as made:  # no number: TF Serving passes it by
        yield Path(made)
        _put_all([(Path(made) / part / str(version), Path(place)) for part, place in places.items()])


def _put_all(moves: list[tuple[Path, Path]]) -> None:
    """Swap folders with what is in their places; where one cannot be, the others are put back."""
    for number, (new, place) in enumerate(moves):
        try:
            _swap(new, place)
        except OSError:
            for back in moves[:number]:
                _swap(*back)
            raise


def _swap(a: Path, b: Path) -> None:
    """Swap two places, of which either may be empty."""
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
    """Copy files; saved_model.pb last, before which TensorFlow sees no model.

    A bucket renames a folder file by file, so nothing would be won by it. TF Serving would see the number of a version
    with its first file, but loads what models.config names, which the command line writes when all is there.
    """
    import tensorflow as tf

    for part, place in places.items():
        if tf.io.gfile.exists(place):
            tf.io.gfile.rmtree(place)
        files = [file for file in (made / part).rglob("*") if file.is_file()]
        for file in sorted(files, key=lambda file: file.name == "saved_model.pb"):
            target = os.path.join(os.path.dirname(place), file.relative_to(made / part).as_posix())
            tf.io.gfile.makedirs(os.path.dirname(target))
            tf.io.gfile.copy(str(file), target)
