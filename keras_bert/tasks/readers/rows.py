"""Rows: the two columns that `fit` takes, and the place of each row in its file."""

import codecs
import dataclasses
import io
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_bert.text_encoding import UndecodedLine, checked_encoding, decodes, without_mark, wrong_encoding
from keras_bert.wording import plural

logger = logging.getLogger("keras_bert")

Line = tuple[int, str]  # with its number
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


@dataclasses.dataclass(frozen=True)
class Rows:
    """Columns for `task.fit(rows)` or `task.fit(rows.x, rows.y)`; `ids` are the rows' lines or their questions' ids.

    unit: what an id names: a "line", a "question", or a "row", such as those of a Parquet file.
    """

    x: Any
    y: list[Any]
    path: str
    ids: Sequence[int | str]
    unit: str = "row"

    numbers = None  # this and the next two as in a `RowStream`, where `sample` has fewer rows

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns of `x`, also if there is only one."""
        return self.x if isinstance(self.x, tuple) else (self.x,)

    @property
    def sample(self) -> "Rows":
        """Rows that have every target."""
        return self

    @property
    def codes(self) -> Sequence[int]:
        """The number of the row of `sample` with the target of each row."""
        return range(len(self))

    def __getitem__(self, part: slice) -> "Rows":
        """Some of the rows: `rows[:100]`."""
        if not isinstance(part, slice):
            raise TypeError(f"Rows cannot be indexed by a number. Use a slice, such as rows[5:6]. Received: {part!r}")
        return self.take(range(len(self))[part])

    def take(self, numbers: Any) -> "Rows":
        """The rows with these numbers."""
        taken = tuple([column[number] for number in numbers] for column in self.columns)
        y, ids = ([values[number] for number in numbers] if values else [] for values in (self.y, self.ids))
        return Rows(taken if isinstance(self.x, tuple) else taken[0], y, self.path, ids, self.unit)

    def place(self, row: int) -> str:
        """The place of a row, for error messages: `file:line`."""
        return f"{self.path}:{self.ids[row]}"


def check_exists(path: str | os.PathLike) -> None:
    """Refuse the path of nothing."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file at {path}. Correct the path. Received: {str(path)!r}")


def lines(path: str | os.PathLike, encoding: str = "utf-8", *, keeps: bool = False) -> Iterator[Line]:
    """The lines of a text file, numbered from 1, without a byte order mark and without LF or CRLF at the end.

    keeps: a line in another encoding becomes an `UndecodedLine` and is no error, unless all lines before it are blank.
    """
    check_exists(path)
    with Path(path).open("rb") as file:
        yield from lines_of(file, str(path), encoding, keeps=keeps)


def lines_of(file: Iterable[bytes], name: str, encoding: str = "utf-8", *, keeps: bool = False) -> Iterator[Line]:
    """The same for an open file or a pipe, which errors call `name`."""
    encoding = checked_encoding(encoding)
    if "\n".encode(encoding) != b"\n":  # UTF-16, for example, where the byte of LF is a part of other characters too
        file, encoding = _as_utf8(b"".join(file), name, encoding), "utf-8"
    number, begun = 0, False
    may_be_utf8, example = encoding != "utf-8", 0
    for number, line in enumerate(file, 1):
        try:
            text = line.decode(encoding).removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            error = wrong_encoding(name, number, line, encoding)
            if not keeps or not begun:
                raise error from None
            text = UndecodedLine(line.decode(encoding, "replace").removesuffix("\n").removesuffix("\r"))
            text.error = error
        if number == 1:
            text = text.removeprefix("\ufeff")
            if "\r" in text:  # otherwise the whole of such a file would be one line
                raise ValueError(
                    f"{name}, line 1, has a CR inside. Save the file with lines that end in LF or CRLF. "
                    f"Received: {name}:1"
                )
            if "\0" in text and not (text[::2].strip("\0") and text[1::2].strip("\0")):  # UTF-16 without a mark
                raise ValueError(
                    f"{name}, line 1, has NUL characters, as files in UTF-16 do when they are read as {encoding}. Save "
                    "the file as UTF-8, or name its encoding with --encoding (encoding=...), often utf-16-le. "
                    f"Received: {name}:1"
                )
        begun = begun or bool(text.strip())
        if may_be_utf8 and not line.isascii():
            example, may_be_utf8 = number, decodes(line, "utf-8")
        yield number, text
    if may_be_utf8 and example:
        logger.warning(
            "%s is read as %s, but it may be UTF-8: see line %d. If it is, pass --encoding utf-8 (encoding=...).",
            name, encoding.upper(), example,
        )  # fmt: skip
    if not number:
        raise ValueError(f"{name} is empty. Give a file with at least one line. Received: {name}")


def _as_utf8(data: bytes, name: str, encoding: str) -> io.BytesIO:
    if data and encoding in ("utf-16", "utf-32") and not data.startswith(_MARKS):
        raise without_mark(name, encoding)
    try:
        return io.BytesIO(data.decode(encoding).encode())
    except UnicodeDecodeError as error:
        number = data[: error.start].decode(encoding, "ignore").count("\n") + 1
        raise wrong_encoding(name, number, data[error.start : error.end], encoding) from None


@contextmanager
def naming(file: str) -> Iterator[None]:
    """A block in which errors about a line begin with the name of its file."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def tab_columns(lines: Sequence[Line], width: int) -> list[list[str]]:
    """The columns of numbered lines whose texts are separated by tabs; the last text may contain tabs."""
    rows = [line.split("\t", width - 1) for _, line in lines]
    for (number, _), row in zip(lines, rows, strict=True):
        if len(row) != width:
            raise ValueError(
                f"Line {number} has {len(row)} {plural('column', len(row))} instead of {width}. Separate the {width} "
                f"columns by tabs. Received: {row!r} in line {number}"
            )
    return [list(column) for column in zip(*rows, strict=True)]
