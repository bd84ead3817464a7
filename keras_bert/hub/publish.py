"""A version of an export appears whole or not at all, on a disk or in a bucket."""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    taken = [place for place in places.values() if tf.io.gfile.exists(place)]
    if taken and not overwrite:
        raise FileExistsError(
            "A version is exported once. Give a higher version, or overwrite=True (--overwrite) to replace it. "
            f"Received: {taken[0]}, which exists"
        )
    if "://" in directory:
        with tempfile.TemporaryDirectory() as made:
            yield Path(made)
            _upload(Path(made), places)
        return
    os.makedirs(directory, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".partial-") as made:  # no number: TF Serving passes it by
        yield Path(made)
        for part, place in places.items():
            _put(Path(made) / part / str(version), Path(place))


def _put(new: Path, place: Path) -> None:
    """Move a folder to its place; what was there, if anything, is left at `new`."""
    if not new.exists():  # a part that this kind of model has not
        new = new.with_name("nothing")
        if place.exists():
            new.parent.mkdir(exist_ok=True)
            os.rename(place, new)
    elif place.exists():
        _exchange(new, place)
    else:
        place.parent.mkdir(exist_ok=True)
        os.rename(new, place)


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
