"""Rows of TSV, CSV, JSONL and `label text` files, with columns by name or number."""

import dataclasses
import os
import re
from pathlib import Path
from typing import Any

from keras_bert.jsonl import parse_line
from keras_bert.tasks.readers.bad_rows import BadRows
from keras_bert.tasks.readers.delimited import DELIMITERS, delimited_rows, other_delimiter
from keras_bert.tasks.readers.rows import lines
from keras_bert.wording import listed

Column = str | int
Numbered = list[tuple[int, Any]]  # rows with the line that each begins on
SUFFIXES = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "label-text"}


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows, each with the line that it begins on, and the names of the columns, None if the file has no header."""

    path: str
    names: list[str] | None
    rows: list[Any]  # each has its cells by their number
    lines: list[int]
    hint: str = ""  # what may be wrong if a column is missing

    def column(self, column: Column) -> list[Any]:
        """One column, by its name in the header or its number from 0."""
        index = self._index(column)
        return [row[index] for row in self.rows]

    def place(self, row: int) -> str:
        """The place of a row, for error messages."""
        return f"{self.path}, line {self.lines[row]}"

    def _index(self, column: Column) -> int:
        names = self.names or []
        width = len(self.rows[0] if self.names is None else names)
        found = [number for number, name in enumerate(names) if name == column]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValueError(
                f"{self.path} has {len(found)} columns called {column!r}, the numbers {', '.join(map(str, found))}. "
                f"Rename them, or add --header and name one by its number. Received: {column!r}"
            )
        if isinstance(column, int) and 0 <= column < width:
            return column
        shown = [repr(name if len(name) < 50 else name[:50] + "...") for name in names]
        known = listed(shown, 20) if names else f"the numbers 0 to {width - 1}; it has no header"
        hint = self.hint
        if not hint and any(map(_is_no_name, names)):
            hint = (
                " The first row looks like data. If the file has no header, add --no-header and name columns by their "
                "number, such as --text 0 --label 1."
            )
        raise ValueError(
            f"{self.path} has no column {column!r}. Name one of its columns: {known}.{hint} Received: {column!r}"
        )


def read_table(
    path: str | os.PathLike,
    *,
    format: str | None = None,
    header: bool,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    bad: BadRows | None = None,
) -> Table:
    """Read a file of a format that its suffix or `format` names.

    Args:
        format: "tsv" (quotes only if they are around cells throughout), "csv" (quotes as in RFC 4180), "jsonl" (one
            object on a line), or "label-text" (a label, a space or tab, and the text on a line; the columns are "label"
            and "text").
        header: whether the first row of a TSV or CSV file names the columns.
        delimiter: between the cells of a TSV or CSV file, if it is another character. A .txt file with a delimiter is
            read as CSV.
        bad: what happens to rows that cannot be read; by default they are an error.
    """
    bad = bad or BadRows(path)
    if format is None:
        format = SUFFIXES.get(Path(path).suffix.lower())
        if delimiter and format not in DELIMITERS:
            format = "csv"
    if format is None or format not in SUFFIXES.values():
        raise ValueError(
            f"The format of {path} is unknown. Name it (tsv, csv, jsonl or label-text), or give the file such a "
            f"suffix. Received: format={format!r}"
        )
    if format == "jsonl":
        return _table(path, *_jsonl(path, encoding, bad), bad)
    if format == "label-text":
        return _table(path, ["label", "text"], _label_text(path, encoding, bad), bad)
    delimiter = delimiter or DELIMITERS[format]
    text = [line for _, line in lines(path, encoding)]
    rows = delimited_rows(path, text, format, delimiter, bad)
    hint = other_delimiter(text, delimiter)
    names = rows.pop(0)[1] if header and rows else None
    width = len(names) if names else len(rows[0][1]) if rows else 0
    even = []
    for line, row in rows:
        if len(row) == width:
            even.append((line, row))
            continue
        wrong = ValueError(
            f"{path}, line {line}: the row has {len(row)} columns, and the first has {width}. Correct the row, name "
            f"another format, or drop such rows with --skip-bad (skip_bad=True).{hint} Received: {len(row)} columns"
        )
        bad.add(line, wrong)
    return _table(path, names, even, bad, hint)


def _table(path: str | os.PathLike, names: list[str] | None, rows: Numbered, bad: BadRows, hint: str = "") -> Table:
    if not rows:
        bad.report(kept=0)
        raise ValueError(f"{path} has no rows. Add some, or name another file. Received: {path}")
    return Table(str(path), names, [row for _, row in rows], [line for line, _ in rows], hint)


def _is_no_name(name: str) -> bool:
    """Whether a cell of the first row is too long for the name of a column, or is a number."""
    return len(name) > 50 or len(name.split()) > 4 or re.fullmatch(r"[+-]?\d+(\.\d+)?", name) is not None


def _label_text(path: str | os.PathLike, encoding: str, bad: BadRows) -> Numbered:
    rows = []
    for number, line in lines(path, encoding):
        cells = re.split("[ \t]", line, maxsplit=1)
        if not line.strip():
            continue
        if len(cells) == 2:
            rows.append((number, cells))
        else:
            wrong = ValueError(
                f"{path}, line {number}, is not a label, a space and a text. Add what is missing, or drop such rows "
                f"with --skip-bad (skip_bad=True). Received: {line!r}"
            )
            bad.add(number, wrong)
    return rows


def _jsonl(path: str | os.PathLike, encoding: str, bad: BadRows) -> tuple[list[str], Numbered]:
    objects = []
    for number, line in lines(path, encoding):
        if line.strip():
            try:
                objects.append((number, _object(path, number, line)))
            except ValueError as error:
                bad.add(number, error)
    names = {name: place for place, name in enumerate(dict.fromkeys(name for _, record in objects for name in record))}
    rows = [(number, _Cells((names[name], value) for name, value in record.items())) for number, record in objects]
    return list(names), rows


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
