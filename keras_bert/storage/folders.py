"""Folders of this machine: new ones that appear completely or not at all, and the one file of a kind in a folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from keras_bert.storage.files import make_folder, temporary_folder
from keras_bert.wording import listed


@contextmanager
def new_folder(path: str | os.PathLike) -> Iterator[Path]:
    """A temporary folder to write into, which is renamed to `path` when the block ends without an error."""
    path = str(check_new_folder(path))
    with new_parents(path), temporary_folder("write", path) as temporary:
        yield Path(temporary)
        os.replace(temporary, path)


@contextmanager
def new_parents(path: str | os.PathLike) -> Iterator[None]:
    """Make the folders above a path. If the block fails, those that did not exist and are empty are removed."""
    new = [folder for folder in Path(path).absolute().parents if not folder.exists()]  # the deepest first
    try:
        make_folder(os.path.dirname(path) or os.curdir)
        yield
    except BaseException:
        for folder in new:
            with suppress(OSError):
                folder.rmdir()
        raise


def check_new_folder(path: str | os.PathLike) -> Path:
    """The path without links, where nothing is, or an empty folder that can be replaced; otherwise an error."""
    path = Path(path)
    if path.exists() and path.samefile(os.curdir):
        raise FileExistsError(
            f"The output cannot be the folder in which the command runs. Name a folder in it. Received: {path}"
        )
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(
            f"The output must be a new or empty folder. Choose another path, or empty the folder. Received: {path}"
        )
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if above.is_file():
        raise NotADirectoryError(f"{above} is a file, so nothing can be in it. Choose another path. Received: {path}")
    real = Path(os.path.realpath(path))  # a link to an empty folder stays a link
    if os.path.ismount(real):
        raise FileExistsError(
            f"The output cannot be a mount point, which nothing can replace. Name a folder in it. Received: {path}"
        )
    return real


def only_file(folder: Path, pattern: str) -> Path | None:
    """The file in a folder that matches a pattern; None if none does, an error if several do."""
    found = sorted(folder.glob(pattern))
    if len(found) > 1:
        raise ValueError(
            "The folder must hold exactly one model. Give the path of the model to load. Received: "
            f"{listed([file.name for file in found])} in {folder}"
        )
    return found[0] if found else None
