"""Paths: remote or local, temporary names, patterns, and paths that TensorFlow would read as patterns."""

import atexit
import functools
import glob
import hashlib
import os
import shutil
import tempfile

from keras_bert.lazy import tf

_LONGEST = 255  # bytes of a file's name on most file systems
_PATTERN = frozenset("*?[\\")  # what TensorFlow's readers take for a pattern, even in the path of a file that exists


def is_remote(path: str | os.PathLike) -> bool:
    """Whether a path belongs to one of TensorFlow's file systems, such as gs:// or ram://.

    >>> is_remote("gs://bucket/run"), is_remote("runs/film")
    (True, False)
    """
    return "://" in os.fspath(path)


def temporary_path(path: str | os.PathLike) -> str:
    """Where a file or folder is written before it gets its name: in the same folder, hidden, and for this process.

    >>> temporary_path("runs/film").replace(str(os.getpid()), "123")
    'runs/.film.123.partial'
    """
    folder, name = os.path.split(os.fspath(path).rstrip("/"))
    ending = f".{os.getpid()}.partial"
    while len(os.fsencode(f".{name}{ending}")) > _LONGEST:
        name = name[:-1]
    return os.path.join(folder, f".{name}{ending}")


def matching(pattern: str) -> list[str]:
    """The files that a path or a pattern names, sorted. Folders that exist may have `[`, `*` or `?` in their names.

    `**` matches any number of folders, or no folder.
    """
    if is_remote(pattern):
        if tf.io.gfile.exists(pattern):
            return [pattern]
        if "**" in pattern:  # TensorFlow reads it as `*`
            raise ValueError(
                "A remote pattern cannot have `**`. Name the folder, whose subfolders are read too, or one `*` for "
                f"each level of folders. Received: {pattern}"
            )
        return sorted(tf.io.gfile.glob(pattern))
    if os.path.isfile(pattern):
        return [pattern]
    folder = os.path.dirname(pattern)
    while not os.path.isdir(folder or "."):
        folder = os.path.dirname(folder)
    found = glob.glob(glob.escape(folder) + pattern[len(folder) :], recursive=True)
    return sorted(set(filter(os.path.isfile, found)))


def literal_path(path: str | os.PathLike) -> str:
    """A path to an existing checkpoint, SavedModel or folder that TensorFlow does not read as a pattern.

    TensorFlow finds nothing at a path with `[` or a backslash, and with `*` or `?` it may find files of another folder.
    Such a path is replaced by one of symbolic links, which exist until this process ends; any other is returned as is.
    """
    path = os.fspath(path)
    if not _PATTERN & set(path):
        return path
    if is_remote(path):
        raise ValueError(
            "TensorFlow cannot read from a remote path that contains one of the characters `*`, `?`, `[`, `\\`. "
            "Choose another path. "
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
    """A temporary folder of this process. A forked process gets its own, so that neither removes the other's."""
    usual = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="keras-bert-links-", dir="/tmp" if _PATTERN & set(usual) else usual)
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == process else None)
    return folder
