"""Rows of TSV, CSV, JSONL, Parquet and `label text` files, with columns by name or number."""

import dataclasses
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from keras_bert.jsonl import parse_line
from keras_bert.tasks.readers.bad_rows import DROP, BadRows
from keras_bert.tasks.readers.delimited import (
    DELIMITERS,
    checked_delimiter,
    is_quoted,
    name_of,
    names_in,
    other_delimiter,
    quoted_rows,
)
from keras_bert.tasks.readers.parquet import parquet_lines
from keras_bert.tasks.readers.rows import Line, lines
from keras_bert.text_encoding import composed, is_blank
from keras_bert.wording import listed, plural

logger = logging.getLogger("keras_bert")

Column = str | int
_ADVICE = {  # by the suffix of a file that cannot be read
    ".json": " Write the rows of a .json file as .jsonl, one object on each line.",
    ".xlsx": " Save the sheet of an Excel workbook as CSV.",
    ".xls": " Save the sheet of an Excel workbook as CSV.",
    ".gz": " Unpack a gzip file first.",
}
SUFFIXES = {
    ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "label-text", ".parquet": "parquet",
}  # fmt: skip

LINES = "lines"  # the format of a file whose lines are texts; no suffix and no option names it
LABELLED_LINES = (
    ' Each of its lines is read as a label, a space and a text. For columns, pass --format tsv (format="tsv"); if '
    "its lines are only texts, `finetune embed` has --lines."
)


class NoColumnError(ValueError):
    """A file does not have the column that was named, so that none of its rows can be read."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows, each with the line that it begins on, and the names of the columns, None if the file has no header.

    It is the path of its file too, so that readers accept it in place of one.
    """

    path: str
    names: list[str] | None
    rows: list[Any]  # each has its cells by their number
    lines: list[int]
    hint: str = ""  # what may be wrong if a column is missing
    unit: str = "line"  # what the numbers of `lines` count: those of a Parquet file are rows

    def __fspath__(self) -> str:
        return self.path

    __str__ = __fspath__

    def __getitem__(self, part: slice) -> "Table":
        """Some of the rows."""
        return dataclasses.replace(self, rows=self.rows[part], lines=self.lines[part])

    def column(self, column: Column) -> list[Any]:
        """One column, by its name in the header or its number from 0. A number with no column may be a name."""
        index = self._index(column)
        return [row[index] for row in self.rows]

    def place(self, row: int) -> str:
        """The place of a row, for error messages."""
        return f"{self.path}, {self.unit} {self.lines[row]}"

    def _index(self, column: Column) -> int:
        names = self.names or []
        width = len(self.rows[0] if self.names is None else names)
        if isinstance(column, int) and 0 <= column < width:
            if str(column) in names and names[column] != str(column):
                logger.warning(
                    "%s: column %d is read by its number, and is called %r. There is also a column called '%d'. Rename "
                    "that one to read it.", self.path, column, names[column], column,
                )  # fmt: skip
            return column
        found = [number for number, name in enumerate(names) if name == str(column)]
        found = found or [number for number, name in enumerate(names) if composed(name) == composed(str(column))]
        if len(found) == 1:
            return found[0]
        if found:
            raise NoColumnError(
                f"{self.path} has {len(found)} columns called {column!r}, with the numbers {', '.join(map(str, found))}"
                f". Rename them, or add --header and name one by its number. Received: {column!r}"
            )
        shown = [repr(name if len(name) < 50 else name[:50] + "...") for name in names]
        known = listed(shown, 20) if names else f"the numbers 0 to {width - 1}; it has no header"
        hint = self.hint
        if not hint and any(map(_is_no_name, names)):
            hint = (
                " The first row looks like data. If the file has no header, add --no-header and name columns by their "
                "number, such as --text 0 --label 1."
            )
        raise NoColumnError(
            f"{self.path} has no column {column!r}. Name one of its columns: {known}.{hint} Received: {column!r}"
        )


class TableParser:
    """Makes rows of the lines of a file, and keeps what it learns of their columns.

    Args:
        format: "tsv" (quotes only if they are around cells throughout), "csv" (quotes as in RFC 4180), "jsonl" (one
            object on a line), "parquet", "label-text" (a label, a space or tab, and the text on a line; the columns
            are "label" and "text"), or "lines" (of a text each, the column "text"). By default the suffix decides.
        header: whether the first row of a TSV or CSV file names the columns.
        delimiter: between the cells of a TSV or CSV file. If it is not given, and the first row names the columns, that
            row decides. A .txt file with a delimiter is read as CSV.
        bad: what happens to rows that cannot be read; by default they are an error.
        longest: the most characters of a quoted cell.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        format: str | None = None,
        header: bool,
        delimiter: str | None = None,
        bad: BadRows | None = None,
        longest: int = sys.maxsize,
    ) -> None:
        if format is None:
            format = SUFFIXES.get(Path(path).suffix.lower())
            if delimiter is not None and format not in DELIMITERS:
                format = "csv"
        if format is None or format not in (*SUFFIXES.values(), LINES):
            advice = _ADVICE.get(Path(path).suffix.lower(), "")
            raise ValueError(
                f"The format of {path} is unknown. Give the option `format` (--format): tsv, csv, jsonl, parquet or "
                f"label-text.{advice} Received: format={format!r}"
            )
        self.path = path
        self.format = format
        self.delimiter = DELIMITERS.get(format, "") if delimiter is None else checked_delimiter(delimiter)
        self.finds_delimiter = header and delimiter is None
        self.bad = bad or BadRows(path)
        self.longest = longest
        self.header = header
        self.is_delimited = format in DELIMITERS
        self.quoted = format == "csv"
        self.hint = LABELLED_LINES if format == "label-text" else ""
        self.header_names: list[str] | None = None  # of TSV and CSV, where a name may come twice
        self.names = {"label-text": {"label": 0, "text": 1}, LINES: {"text": 0}}.get(format, {})  # of other formats
        self._row_of = {"label-text": self._label_and_text, LINES: lambda _, line: (line,)}.get(format, self._object)

    def look(self, lines: Iterable[str]) -> None:
        """Find out from the lines of a TSV or CSV file what separates its cells, and whether quotes are around them.

        Without names of columns, a text with commas could look like cells, so another delimiter is only suggested.
        """
        lines = iter(lines)
        first = list(islice(lines, 100))
        if first and (mark := re.fullmatch('"?sep=(.)"?', first[0])):
            raise ValueError(
                f"The first line of {self.path} is an instruction for Excel and not a row. Delete this line, and add "
                f"--delimiter '{name_of(mark[1])}'. Received: {first[0]!r}"
            )
        if other := other_delimiter(first, self.delimiter):
            if self.finds_delimiter and names_in(next(filter(None, first)), other):
                logger.info(
                    "The columns of %s are separated by %r, as its first row shows. If this is wrong, add --delimiter "
                    "'%s'.",
                    self.path, other, name_of(self.delimiter),
                )  # fmt: skip
                self.delimiter = other
            else:
                self.hint = (
                    f" Its columns seem to be separated by {other!r} and not by {self.delimiter!r}: add --delimiter "
                    f"'{name_of(other)}'."
                )
        quoted = self.format == "csv" or is_quoted(chain(first, lines), self.delimiter)
        if quoted is None:
            logger.warning(
                "The quotes in %s are read as parts of the texts, but they could also enclose cells of several lines. "
                "If they do, add --format csv --delimiter %s.", self.path, name_of(self.delimiter),
            )  # fmt: skip
        self.quoted = bool(quoted)

    def rows(self, lines: Iterator[Line]) -> Iterator[tuple[int, Any]]:
        """The rows of all lines of the file, each with the line that it begins on."""
        rows = self.cells(lines)
        if not self.is_delimited:
            yield from rows
            return
        if self.header:
            self.header_names = next((list(row) for _, row in rows), None)
        width = len(self.header_names) if self.header_names else 0
        for line, row in rows:
            width = width or len(row)
            if len(row) == width:
                yield line, row
                continue
            wrong = ValueError(
                f"{self.path}, line {line}: the row has {len(row)} {plural('column', len(row))}, but the first row has "
                f"{width}. Correct the row, name another format, or {DROP}.{self.hint} "
                f"Received: {len(row)} {plural('column', len(row))}"
            )
            self.bad.add(line, wrong)

    def cells(self, lines: Iterator[Line]) -> Iterator[tuple[int, Any]]:
        """The cells of each row of some lines, without a check of their number."""
        if self.quoted:
            yield from quoted_rows(self.path, lines, self.delimiter, self.bad, hint=self.hint, longest=self.longest)
        elif self.is_delimited:
            yield from ((number, tuple(line.split(self.delimiter))) for number, line in self.bad.without(lines) if line)
        else:
            for number, line in self.bad.without(lines):
                if not is_blank(line):
                    try:
                        yield number, self._row_of(number, line)
                    except ValueError as error:
                        self.bad.add(number, error)

    def table(self, rows: list[tuple[int, Any]]) -> Table:
        """Some of the rows, each with the line that it begins on, as a table."""
        names = self.header_names if self.is_delimited else list(self.names)
        unit = "row" if self.format == "parquet" else "line"
        return Table(str(self.path), names, [row for _, row in rows], [line for line, _ in rows], self.hint, unit)

    def look_for_columns(self, rows: list[tuple[int, Any]]) -> None:
        """Log it if the lines of a file of labels and texts may be columns. rows: all of them, or the first ones."""
        tabs = {text.count("\t") for _, (_, text) in rows} if self.format == "label-text" else set()
        if len(tabs) == 1 and (count := max(tabs)):
            logger.warning(
                "Each text in %s has %d %s, so its lines may be rows of columns. They are read as a label and a text. "
                'To read columns, pass --format tsv (format="tsv").', self.path, count, plural("tab", count),
            )  # fmt: skip

    def check_any(self, rows: Any) -> None:
        """Refuse a file without rows."""
        if not rows:
            self.bad.report(kept=0)
            raise ValueError(f"{self.path} has no rows. Add some, or name another file. Received: {self.path}")

    def _label_and_text(self, number: int, line: str) -> tuple[str, ...]:
        cells = tuple(re.split("[ \t]", line, maxsplit=1))
        if len(cells) == 2:
            return cells
        raise ValueError(
            f"{self.path}, line {number}, is not a label, a space and a text. Add what is missing, or {DROP}. "
            f"Received: {line!r}"
        )

    def _object(self, number: int, line: str) -> "_Cells":
        record = parse_line(line, self.path, number, remedy=f"Write one object on each line, or {DROP}")
        if not isinstance(record, dict):
            advice = f"Write an object with the columns of the row, or {DROP}"
            if isinstance(record, list):
                advice = "Write one object on each line; in pandas, to_json(..., orient='records', lines=True) does"
            raise ValueError(
                f"{self.path}, line {number}, is not a JSON object. {advice}. Received: {str(record)[:60]}"
            )
        names = self.names
        return _Cells({names.setdefault(name, len(names)): value for name, value in record.items()})


class _Cells(dict[int, Any]):
    """The cells that a row has; others are None. Rows may all have names of their own, so lists could be huge."""

    def __missing__(self, place: int) -> None:
        return None


def read_table(
    path: str | os.PathLike,
    *,
    format: str | None = None,
    header: bool,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    bad: BadRows | None = None,
) -> Table:
    """Read a file; the arguments are those of `TableParser`. A table is returned as it is."""
    if isinstance(path, Table):
        return path
    parser = TableParser(path, format=format, header=header, delimiter=delimiter, bad=bad)
    found = parquet_lines(path) if parser.format == "parquet" else lines(path, encoding, keeps=parser.bad.skip)
    if parser.is_delimited:
        numbered = list(found)
        parser.look(line for _, line in numbered)
        found = iter(numbered)
    rows = list(parser.rows(found))
    parser.check_any(rows)
    parser.look_for_columns(rows)
    return parser.table(rows)


def _is_no_name(name: str) -> bool:
    """Whether a cell of the first row is too long for the name of a column, or is a number."""
    return len(name) > 50 or len(name.split()) > 4 or re.fullmatch(r"[+-]?\d+(\.\d+)?", name) is not None
