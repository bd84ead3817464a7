"""Rows: the two columns that `fit` takes, and the place of each row in its file."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Rows:
    """Columns for `task.fit(rows)` or `task.fit(rows.x, rows.y)`; `ids` are the rows' lines or their questions' ids."""

    x: Any
    y: list[Any]
    path: str
    ids: Sequence[int | str]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice) -> "Rows":
        """Some of the rows: `rows[:100]`."""
        if not isinstance(part, slice):
            raise TypeError(f"Rows have no single items. Use a slice, such as rows[:100]. Received: {part!r}")
        x = tuple(column[part] for column in self.x) if isinstance(self.x, tuple) else self.x[part]
        return Rows(x, self.y[part], self.path, self.ids[part])

    def place(self, row: int) -> str:
        """The place of a row, for error messages: `file:line`."""
        return f"{self.path}:{self.ids[row]}"


def lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, numbered from 1, without a byte order mark and without LF or CRLF at the end."""
    with Path(path).open("rb") as file:
        yield from lines_of(file, str(path))


def lines_of(file: Iterable[bytes], name: str) -> Iterator[tuple[int, str]]:
    """The same for an open file or a pipe, which errors call `name`."""
    number = 0
    for number, line in enumerate(file, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise ValueError(
                f"{name}, line {number}, is not UTF-8. Save the file as UTF-8; older Korean files are often CP949. "
                f"Received: {name}:{number}"
            ) from None
        text = text.removesuffix("\n").removesuffix("\r")
        if number == 1 and "\r" in text:  # otherwise the whole of such a file would be one line
            raise ValueError(
                f"{name}, line 1, has a CR inside. Save the file with lines that end in LF or CRLF. Received: {name}:1"
            )
        yield number, text
    if not number:
        raise ValueError(f"{name} is empty. Give a file with at least one line. Received: {name}")


def tab_columns(lines: Sequence[tuple[int, str]], width: int) -> list[list[str]]:
    """The columns of numbered lines whose texts are separated by tabs; the last text may contain tabs."""
    rows = [line.split("\t", width - 1) for _, line in lines]
    for (number, _), row in zip(lines, rows, strict=True):
        if len(row) != width:
            raise ValueError(
                f"Line {number} has {len(row)} texts and not {width}. Separate the {width} texts of a line by tabs. "
                f"Received: {len(row)} in line {number}"
            )
    return [list(column) for column in zip(*rows, strict=True)]
