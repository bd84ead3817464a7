"""LineFile: a file whose lines are found by the byte at which they begin."""

import os
import tempfile
from array import array
from collections.abc import Iterator
from typing import Any

from keras_bert.tasks.readers.rows import Line, check_exists, lines_of
from keras_bert.text_encoding import checked_encoding


class LineFile:
    """An open file of lines.

    lines: in place of those of the file, for a file that has none; they are copied into a temporary file, which is
        deleted in the end, however the process ends.
    keeps: as in `lines`.
    """

    def __init__(self, path: str, encoding: str, lines: Iterator[Line] | None = None, *, keeps: bool = False) -> None:
        self.path = path
        self.keeps = keeps
        self.encoding = "utf-8" if lines else checked_encoding(encoding)
        check_exists(path)
        self._status = None if lines else _status(path)
        opened = tempfile.TemporaryFile(prefix="keras-bert-") if lines else open(path, "rb")  # noqa: SIM115
        self._file: Any = opened
        for _, line in lines or ():
            self._file.write(line.encode() + b"\n")
        self.size = self._file.seek(0, os.SEEK_END)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def all(self, begins: array | None = None) -> Iterator[Line]:
        """All lines. It adds the byte at which each begins to `begins`."""

        def lines() -> Iterator[bytes]:
            begin = 0
            for line in self._file:
                if begins is not None:
                    begins.append(begin)
                begin += len(line)
                yield line

        self._file.seek(0)
        return lines_of(lines(), self.path, self.encoding, keeps=self.keeps)

    def at(self, begin: int) -> Iterator[Line]:
        """The lines from this byte on, numbered from 0."""
        self._file.seek(begin)
        for number, line in enumerate(self._file):
            text = line.decode(self.encoding).removesuffix("\n").removesuffix("\r")
            yield number, text if begin or number else text.removeprefix("\ufeff")

    def check_unchanged(self) -> None:
        """Raise an error if the file was changed since it was opened."""
        if self._status is not None and (status := _status(self.path)) != self._status:
            before, now = self._status[0], status[0]
            raise ValueError(
                f"{self.path} was changed while it was read as a stream. Start again with a file that stays as it is, "
                "and delete what the run has left (a folder whose name ends in .partial). "
                f"Received: {f'{before:,} bytes before, {now:,} now' if before != now else 'a later time of change'}"
            )


def finds_lines(encoding: str) -> bool:
    """Whether the lines of a file in this encoding end where its bytes have an LF; not in UTF-16, for example."""
    return "\n".encode(checked_encoding(encoding)) == b"\n"


def _status(path: str) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ino
