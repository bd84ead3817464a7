"""Rows of TSV, CSV, JSONL and `label text` files, with columns by name or number."""

import csv
import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert.jsonl import parse_line
from keras_bert.tasks.readers.rows import lines
from keras_bert.wording import listed

Column = str | int
SUFFIXES = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "label-text"}


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows, each with the line that it begins on, and the names of the columns, None if the file has no header."""

    path: str
    names: list[str] | None
    rows: list[Any]  # each has its cells by their number
    lines: list[int]

    def column(self, column: Column) -> list[Any]:
        """One column, by its name in the header or its number from 0."""
        index = self._index(column)
        return [row[index] for row in self.rows]

    def place(self, row: int) -> str:
        """The place of a row, for error messages."""
        return f"{self.path}, line {self.lines[row]}"

    def _index(self, column: Column) -> int:
        width = len(self.rows[0] if self.names is None else self.names)
        if self.names is not None and column in self.names:
            return self.names.index(str(column))
        if isinstance(column, int) and 0 <= column < width:
            return column
        known = (
            listed(list(map(repr, self.names)), 20) if self.names else f"the numbers 0 to {width - 1}; it has no header"
        )
        raise ValueError(
            f"{self.path} has no column {column!r}. Name one of its columns: {known}. Received: {column!r}"
        )


def read_table(path: str | os.PathLike, *, format: str | None = None, header: bool) -> Table:
    """Read a file of a format that its suffix or `format` names.

    Args:
        format: "tsv" (no quotes), "csv" (quotes as in RFC 4180), "jsonl" (one object on a line), or "label-text" (a
            label, a space and the text on a line; the columns are "label" and "text").
        header: whether the first row of a TSV or CSV file names the columns.
    """
    format = format or SUFFIXES.get(Path(path).suffix.lower())
    if format not in SUFFIXES.values():
        raise ValueError(
            f"The format of {path} is unknown. Name it (tsv, csv, jsonl or label-text), or give the file such a "
            f"suffix. Received: format={format!r}"
        )
    if format == "jsonl":
        return _read_jsonl(path)
    if format == "label-text":
        names: list[str] | None = ["label", "text"]
        rows = list(_label_text(path))
    else:
        rows = list(_csv(path)) if format == "csv" else [(line, row.split("\t")) for line, row in lines(path) if row]
        names = rows.pop(0)[1] if header and rows else None
    width = len(names) if names else len(rows[0][1]) if rows else 0
    for line, row in rows:
        if len(row) != width:
            raise ValueError(
                f"{path}, line {line}: the row has {len(row)} columns, and the first has {width}. Correct the row, or "
                f"name another format. Received: {len(row)} columns"
            )
    return _table(path, names, rows)


def _table(path: str | os.PathLike, names: list[str] | None, rows: list[tuple[int, Any]]) -> Table:
    if not rows:
        raise ValueError(f"{path} has no rows. Add some, or name another file. Received: {path}")
    return Table(str(path), names, [row for _, row in rows], [line for line, _ in rows])


def _csv(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    limit = csv.field_size_limit(sys.maxsize)  # a context may be longer than the default limit of 131,072 characters
    # strict, because a quote that is never closed would take in the rest of the file.
    reader = csv.reader((line + "\n" for _, line in lines(path)), strict=True)
    begin = 1
    try:
        for row in reader:
            if row:
                yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {begin}: the row that begins here has wrong quotes. Close them, and double those inside a "
            f"field; or name the format tsv. Received: {error}"
        ) from None
    finally:
        csv.field_size_limit(limit)


def _label_text(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines(path):
        if line.strip():
            label, space, text = line.partition(" ")
            if not space:
                raise ValueError(
                    f"{path}, line {number}, is not a label, a space and a text. Add what is missing. Received: "
                    f"{line!r}"
                )
            yield number, [label, text]


def _read_jsonl(path: str | os.PathLike) -> Table:
    objects = [(number, _object(path, number, line)) for number, line in lines(path) if line.strip()]
    names = {name: place for place, name in enumerate(dict.fromkeys(name for _, record in objects for name in record))}
    rows = [(number, _Cells((names[name], value) for name, value in record.items())) for number, record in objects]
    return _table(path, list(names), rows)


class _Cells(dict[int, Any]):
    """The cells that a row has; others are None. Rows may all have names of their own, so lists could be huge."""

    def __missing__(self, place: int) -> None:
        return None


def _object(path: str | os.PathLike, number: int, line: str) -> dict[str, Any]:
    record = parse_line(line, path, number)
    if not isinstance(record, dict):
        raise ValueError(
            f"{path}, line {number}, is not a JSON object. Write one object with the columns of the row. Received: "
            f"{record}"
        )
    return record
