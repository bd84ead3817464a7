"""Files of a corpus: found by name, pattern or folder, local or remote, and opened as a stream of plain bytes."""

import bz2
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from keras_bert.storage import is_remote, matching

_BUFFER = 1 << 20
COMPRESSED = (".gz", ".bz2", ".zst")
KINDS = {
    ".txt": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xml": "wikipedia",
}


def find_files(corpus: str | os.PathLike | Iterable[str | os.PathLike]) -> list[str]:
    """The files that paths, patterns and folders name, in a settled order, each once."""
    paths = [corpus] if isinstance(corpus, str | os.PathLike) else list(corpus)
    found: dict[str, None] = {}
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"A corpus is named by paths. Received: {path!r} ({type(path).__name__})")
        files = _files(os.fspath(path))
        if not files:
            raise FileNotFoundError(
                f"A corpus is made of files: {', '.join(KINDS)}, plain or with {', '.join(COMPRESSED)}. Texts in "
                f"memory go as a tf.data.Dataset or a generator. Received: {os.fspath(path)!r}, which names none"
            )
        found |= dict.fromkeys(files)
    return list(found)


def kind_of(path: str) -> str:
    """What a file holds, by its name: text, markdown, jsonl or wikipedia."""
    stem, suffix = os.path.splitext(path.lower())
    if suffix in COMPRESSED:
        suffix = os.path.splitext(stem)[1]
    return KINDS.get(suffix, "text")


def size_of(path: str) -> int:
    """Bytes on disk."""
    if not is_remote(path):
        return os.path.getsize(path)
    import tensorflow as tf

    return tf.io.gfile.stat(path).length


@contextmanager
def open_bytes(path: str, seen: Callable[[int], None]) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed; `seen` is told how many bytes of the file itself were read.

    What the stream meets while it is open and cannot decompress is an error that names the file.
    """
    errors: list[type[Exception]] = [EOFError, zlib.error, gzip.BadGzipFile]
    raw = io.BufferedReader(_Counted(_open(path), seen), _BUFFER)
    stream: Any = raw
    suffix = os.path.splitext(path.lower())[1]
    if suffix == ".gz":
        stream = gzip.GzipFile(fileobj=raw)
    elif suffix == ".bz2":
        stream = bz2.BZ2File(raw)
        errors.append(OSError)  # "Invalid data stream"
    elif suffix == ".zst":
        try:
            import zstandard
        except ImportError as error:
            raise ImportError("Zstandard files need a package. Run: pip install 'keras3-bert[pretrain]'") from error
        stream = io.BufferedReader(_Zstandard(raw, zstandard.ZstdDecompressor()), _BUFFER)
        errors.append(zstandard.ZstdError)
    with raw:
        try:
            yield stream
        except tuple(errors) as error:
            raise ValueError(
                f"A compressed file must be whole. Get it again. Received: {path} ({error or type(error).__name__})"
            ) from error


def _files(path: str) -> list[str]:
    if is_remote(path):
        import tensorflow as tf

        gfile = tf.io.gfile
        if gfile.isdir(path):
            tree = [os.path.join(folder, name) for folder, _, names in gfile.walk(path) for name in names]
            return sorted(name for name in tree if _known(name, path))
    elif os.path.isdir(path):
        tree = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
        return sorted(name for name in tree if _known(name, path))
    return matching(path)


def _known(name: str, folder: str) -> bool:
    """Of a folder only files of a known kind are taken, and none that is hidden or in a hidden folder."""
    stem, suffix = os.path.splitext(name.lower())
    suffix = os.path.splitext(stem)[1] if suffix in COMPRESSED else suffix
    return suffix in KINDS and not any(part.startswith(".") for part in name.removeprefix(folder).split("/"))


def _open(path: str) -> Any:
    if not is_remote(path):
        return open(path, "rb")
    import tensorflow as tf

    return tf.io.gfile.GFile(path, "rb")


class _Counted(io.RawIOBase):
    """Any file that reads, tf.io.gfile's too, as a raw stream that tells what it reads."""

    def __init__(self, file: Any, seen: Callable[[int], None]) -> None:
        self._file = file
        self._seen = seen

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._seen(len(data))
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Zstandard(io.RawIOBase):
    """Frames one behind another; the package's own reader takes a file that is cut off for a whole one."""

    def __init__(self, file: BinaryIO, decompressor: Any) -> None:
        self._file = file
        self._decompressor = decompressor
        self._frame: Any = None
        self._packed = self._plain = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._plain:
            self._packed = self._packed or self._file.read(1 << 16)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("the file ends within a frame")
                return 0
            if self._frame is None:
                self._frame = self._decompressor.decompressobj()
            self._plain, self._packed = self._frame.decompress(self._packed), b""
            if self._frame.eof:
                self._frame, self._packed = None, self._frame.unused_data
        size = min(len(buffer), len(self._plain))
        buffer[:size], self._plain = self._plain[:size], self._plain[size:]
        return size
