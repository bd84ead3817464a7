"""What every reader gives: the two columns that `fit` takes, and where each row stands in its file."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Rows:
    """Columns for `task.fit(rows)`, or `task.fit(rows.x, rows.y)`; `ids`: each row's line, or its question's id."""

    x: Any
    y: list[Any]
    path: str
    ids: Sequence[int | str]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice) -> "Rows":
        """Some of the rows: `rows[:100]`."""
        if not isinstance(part, slice):
            raise TypeError(f"Rows are taken by a slice, as in rows[:100]. Received: {part!r}")
        x = tuple(column[part] for column in self.x) if isinstance(self.x, tuple) else self.x[part]
        return Rows(x, self.y[part], self.path, self.ids[part])

    def place(self, row: int) -> str:
        """Where a row stands, for an error to name: `file:line`."""
        return f"{self.path}:{self.ids[row]}"


def lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers from 1, without a byte order mark and LF or CRLF at the end."""
    with Path(path).open("rb") as file:
        yield from lines_of(file, str(path))


def lines_of(file: Iterable[bytes], name: str) -> Iterator[tuple[int, str]]:
    """The same of an open file or a pipe; `name` is what errors call it."""
    number = 0
    for number, line in enumerate(file, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise ValueError(
                "Text must be UTF-8. Save it as UTF-8; older Korean files are often CP949. "
                f"Received: {name}:{number}, which is not"
            ) from None
        text = text.removesuffix("\n").removesuffix("\r")
        if number == 1 and "\r" in text:  # else all of such a file would be one line
            raise ValueError(
                f"Lines must end in LF or CRLF. Save the file so. Received: {name}:1, which has a CR within"
            )
        yield number, text
    if not number:
        raise ValueError(f"A file must hold a line at least. Received: {name}, which is empty")
