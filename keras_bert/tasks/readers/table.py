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
    """Rows with the line that each begins on; `names` of the columns, None where the file has no header."""

    path: str
    names: list[str] | None
    rows: list[list[Any]]
    lines: list[int]

    def column(self, column: Column) -> list[Any]:
        """One column, by its name in the header or its number from 0."""
        index = self._index(column)
        return [row[index] for row in self.rows]

    def _index(self, column: Column) -> int:
        width = len(self.rows[0])
        if self.names is not None and column in self.names:
            return self.names.index(str(column))
        if isinstance(column, int) and 0 <= column < width:
            return column
        known = (
            listed(list(map(repr, self.names)), 20) if self.names else f"numbers 0 to {width - 1}, for it has no header"
        )
        raise ValueError(f"A column must be one of the file's: {known}. Name one. Received: {column!r} for {self.path}")


def read_table(path: str | os.PathLike, *, format: str | None = None, header: bool) -> Table:
    """Read a file whose format is told by its suffix unless `format` names it.

    format: "tsv" (no quotes), "csv" (quotes as in RFC 4180), "jsonl" (an object a line), or "label-text" (a label, a
    space, the text: columns "label" and "text"). header: whether the first row of a TSV or CSV names the columns.
    """
    format = format or SUFFIXES.get(Path(path).suffix.lower())
    if format not in SUFFIXES.values():
        raise ValueError(
            "A table's format is tsv, csv, jsonl or label-text. Name it, or give the file a suffix that tells. "
            f"Received: format={format!r} for {path}"
        )
    if format == "jsonl":
        return _read_jsonl(path)
    if format == "label-text":
        names: list[str] | None = ["label", "text"]
        rows = list(_label_text(path))
    else:
        rows = list(_csv(path) if format == "csv" else _tsv(path))
        names = rows.pop(0)[1] if header and rows else None
    width = len(names) if names else len(rows[0][1]) if rows else 0
    for line, row in rows:
        if len(row) != width:
            raise ValueError(
                f"Every row must have the {width} columns of the first. Mend the row, or name another format. "
                f"Received: {len(row)} columns at {path}:{line}"
            )
    return _table(path, names, rows)


def _table(path: str | os.PathLike, names: list[str] | None, rows: list[tuple[int, list[Any]]]) -> Table:
    if not rows:
        raise ValueError(f"A file must hold examples. Received: {path}, which has none")
    return Table(str(path), names, [row for _, row in rows], [line for line, _ in rows])


def _tsv(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines(path):
        if line:
            yield number, line.split("\t")


def _csv(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    limit = csv.field_size_limit(sys.maxsize)  # a context may be longer than the 131,072 characters allowed
    # strict: a quote that is never closed would swallow the rest of the file.
    reader = csv.reader((line + "\n" for _, line in lines(path)), strict=True)
    begin = 1
    try:
        for row in reader:
            if row:
                yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"CSV quotes must be closed and doubled inside a field. Mend them, or name format tsv. Received: {error} "
            f"in the row that begins at {path}:{begin}"
        ) from None
    finally:
        csv.field_size_limit(limit)


def _label_text(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines(path):
        if line.strip():
            label, space, text = line.partition(" ")
            if not space:
                raise ValueError(
                    "Each line of a `label text` file must be a label, a space and a text. Add what is missing. "
                    f"Received: {line!r} at {path}:{number}"
                )
            yield number, [label, text]


def _read_jsonl(path: str | os.PathLike) -> Table:
    objects = [(number, _object(path, number, line)) for number, line in lines(path) if line.strip()]
    names = list(dict.fromkeys(name for _, record in objects for name in record))
    return _table(path, names, [(number, [record.get(name) for name in names]) for number, record in objects])


def _object(path: str | os.PathLike, number: int, line: str) -> dict[str, Any]:
    record = parse_line(line, path, number)
    if not isinstance(record, dict):
        raise ValueError(
            f"Each line of a table in JSONL must be a JSON object. Mend the line. Received: {record} at {path}:{number}"
        )
    return record
