"""Corpus files: found by path, pattern or folder, local or remote, and opened as a stream of decompressed bytes."""

import bz2
import gzip
import io
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from keras_bert.installation import need
from keras_bert.lazy import tf
from keras_bert.storage import is_remote, matching, open_file
from keras_bert.wording import listed, plural

logger = logging.getLogger("keras_bert")

_BUFFER = 1 << 20
COMPRESSED = (".gz", ".bz2", ".zst")
KINDS = {
    ".txt": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".xml": "wikipedia",
}
REFUSED = (".html", ".htm", ".csv", ".tsv", ".parquet")  # as plain text, their markup would be learned
_PART_OF_DUMP = re.compile(r"(?<=\.xml)-p\d+p\d+$")  # Wikimedia's numbers of the first and the last page


def find_files(corpus: str | os.PathLike | Iterable[str | os.PathLike]) -> list[str]:
    """The files that paths, patterns and folders name, in an order that does not change between runs.

    Each path is found once, even if it is named in several ways. Links are files of their own.
    """
    paths = [corpus] if isinstance(corpus, str | os.PathLike) else list(corpus)
    found: dict[str, str] = {}
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(
                "`corpus` has an item that is not a path. Give paths, or a generator or tf.data.Dataset of texts; with "
                f"`beam`, only paths. Received: the item {path!r} ({type(path).__name__})"
            )
        files = _files(os.fspath(path))
        if not files:
            raise FileNotFoundError(
                f"No corpus file was found at {os.fspath(path)!r}. Name files, patterns, or folders with "
                f"{', '.join(KINDS)} files, plain or compressed ({', '.join(COMPRESSED)}). "
                f"Received: {os.fspath(path)!r}"
            )
        for file in files:
            _check_kind(file)
            found.setdefault(file if is_remote(file) else os.path.abspath(file), file)
    return list(found.values())


def kind_of(path: str) -> str:
    """What a file holds, by its name: text, markdown, jsonl or wikipedia. A file with another name is text."""
    return KINDS.get(_suffix(path), "text")


@contextmanager
def open_bytes(path: str, seen: Callable[[int], None]) -> Iterator[BinaryIO]:
    """Open a file as decompressed bytes; an error of decompression in the `with` block names the file.

    seen: called with the number of bytes just read from the file itself.
    """
    errors: list[type[Exception]] = [EOFError, zlib.error, gzip.BadGzipFile]
    raw = io.BufferedReader(_CountedFile(open_file(path, "rb"), seen), _BUFFER)
    stream: Any = raw
    suffix = os.path.splitext(path.lower())[1]
    if suffix == ".gz":
        stream = gzip.GzipFile(fileobj=raw)
    elif suffix == ".bz2":
        stream = bz2.BZ2File(raw)
        errors.append(OSError)  # "Invalid data stream"
    elif suffix == ".zst":
        zstandard = need("zstandard", "Reading .zst files", "pretrain")
        decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)  # as of `zstd --long=31`
        stream = io.BufferedReader(_ZstandardFile(raw, decompressor), _BUFFER)
        errors.append(zstandard.ZstdError)
    with raw:
        try:
            yield stream
        except tuple(errors) as error:
            raise ValueError(
                f"{path} could not be decompressed: it is damaged or incomplete. Download or copy it again. "
                f"Received: {error or type(error).__name__}"
            ) from error


def _files(path: str) -> list[str]:
    if not (tf.io.gfile.isdir(path) if is_remote(path) else os.path.isdir(path)):
        return matching(path)
    walk = tf.io.gfile.walk(path) if is_remote(path) else _walk(path)
    files = sorted(os.path.join(folder, name) for folder, _, names in walk for name in names)
    files = [file for file in files if not _is_hidden(file, path)]
    # An uncompressed .json often describes the data beside it.
    reads = {file: _suffix(file) in KINDS and not file.lower().endswith(".json") for file in files}
    if left_out := [file.removeprefix(path).lstrip("/") for file in files if not reads[file]]:
        logger.warning(
            "%s: left out %d %s (%s). In a folder, only files whose names end in %s are read, plain or compressed.",
            path, len(left_out), plural("file", len(left_out)), listed(left_out, most=3),
            ", ".join(suffix for suffix in KINDS if suffix != ".json"),
        )  # fmt: skip
    return [file for file in files if reads[file]]


def _check_kind(file: str) -> None:
    if _suffix(file) in REFUSED:
        raise ValueError(
            f"{file} cannot be read as text, because its markup would be learned too. Leave it out of the corpus, or "
            f"save its text as .txt or .jsonl. Received: a {_suffix(file)} file"
        )


def _walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` that follows links, enters each folder once and no hidden one, and stops at one it cannot read."""
    seen: set[str] = set()
    for folder, inside, names in os.walk(path, onerror=_unreadable, followlinks=True):
        real = os.path.realpath(folder)
        inside[:] = [] if real in seen else sorted(name for name in inside if not name.startswith("."))
        if real not in seen:
            yield folder, inside, names
        seen.add(real)


def _unreadable(error: OSError) -> None:
    raise OSError(
        f"The folder {error.filename} of the corpus could not be read. Check its permissions, or move it out of the "
        f"corpus. Received: {error.strerror}"
    ) from error


def _is_hidden(file: str, folder: str) -> bool:
    """Whether a file in a folder is hidden, or in a hidden subfolder."""
    return any(part.startswith(".") for part in file.removeprefix(folder).split("/"))


def _suffix(path: str) -> str:
    """The suffix that names the kind, in front of one that names a compression."""
    stem, suffix = os.path.splitext(path.lower())
    return _PART_OF_DUMP.sub("", os.path.splitext(stem)[1] if suffix in COMPRESSED else suffix)


class _CountedFile(io.RawIOBase):
    """A raw stream over any object with `read`, such as tf.io.gfile's files, that reports how much it reads."""

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


class _ZstandardFile(io.RawIOBase):
    """Several frames in a row. The package's own reader does not notice when the file is cut off."""

    def __init__(self, file: BinaryIO, decompressor: Any) -> None:
        self._file = file
        self._decompressor = decompressor
        self._frame: Any = None
        self._packed, self._plain = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._plain:
            self._packed = self._packed or self._file.read(1 << 10)  # which is up to 32 MiB of zeros
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("the file is cut off: its last compressed part is not complete")
                return 0
            if self._frame is None:
                self._frame = self._decompressor.decompressobj()
            self._plain, self._packed = memoryview(self._frame.decompress(self._packed)), b""
            if self._frame.eof:
                self._frame, self._packed = None, self._frame.unused_data
        size = min(len(buffer), len(self._plain))
        buffer[:size], self._plain = self._plain[:size], self._plain[size:]
        return size
