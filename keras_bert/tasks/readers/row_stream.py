"""RowStream: the rows of a file that is too large for the memory, each of which is read when it is needed."""

import copy
import dataclasses
import logging
import os
import threading
import time
from array import array
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from keras_bert.progress import bar
from keras_bert.tasks.readers.bad_rows import BadRows
from keras_bert.tasks.readers.columns import NoTextError
from keras_bert.tasks.readers.delimited import LONGEST
from keras_bert.tasks.readers.line_file import LineFile, finds_lines
from keras_bert.tasks.readers.parquet import parquet_lines
from keras_bert.tasks.readers.reading import Reading
from keras_bert.tasks.readers.rows import Rows
from keras_bert.tasks.readers.table import LINES, NoColumnError, Table, TableParser
from keras_bert.wording import plural

logger = logging.getLogger("keras_bert")

CHUNK = 1024  # rows that are looked at together while the file is read for the first time


def check_stream(path: str | os.PathLike, reading: Reading) -> None:
    """Refuse to stream columns that need all rows, and a file in an encoding in which its lines cannot be found."""
    if reading.others:
        raise ValueError(
            "Columns beside the text cannot be streamed, because their scaling depends on all rows. Leave out --stream "
            f"(in Python, use read_rows), or the columns. Received: {', '.join(map(repr, reading.others))}"
        )
    if reading.format_of(path) != "parquet" and not finds_lines(reading.encoding):
        raise ValueError(
            f"{path} cannot be streamed, since the end of a line in {reading.encoding} is not the byte of a newline. "
            f"Convert the file, as in: iconv -f {reading.encoding} -t utf-8. Received: encoding={reading.encoding!r}"
        )


class RowStream:
    """Rows that stay in their file. Memory holds where each begins, and the number of its target: 12 bytes for a row.

    The file is read once to find its rows and its targets, so that what is wrong in it is found at once. Parquet files
    are copied into a temporary file of lines, whose rows can be found.

    Args:
        reading: where the file has its texts and targets.
        read_rows: makes `Rows` of a path, or of a `Table`, as the `read_rows` of a task does.

    Attributes:
        sample: a row for each different target, so that it has every label of the file; for scores, the rows with the
            lowest and the highest. Without targets, the first row and another, see `_different`.
        codes: the number of the row's target in `sample`, [n]; 0 for scores and without targets.
        numbers: the scores, [n]; otherwise None.
    """

    def __init__(self, path: str | os.PathLike, reading: Reading, read_rows: Callable[[Any, Reading], Rows]) -> None:
        check_stream(path, reading)
        self.path = os.fspath(path)
        self._parser = TableParser(
            path,
            format=LINES if reading.lines else reading.format,
            header=reading.has_header,
            delimiter=reading.delimiter,
            bad=BadRows(path, reading.skip_bad),
            longest=LONGEST,
        )
        self._reading = dataclasses.replace(reading, skip_empty=False, skip_bad=False)
        self._read_rows = read_rows
        self._lock = threading.Lock()  # of the place in the file
        lines = parquet_lines(path) if self._parser.format == "parquet" else None
        self._file = LineFile(self.path, reading.encoding, lines, keeps=reading.skip_bad)
        self._index(reading.skip_empty)

    def __len__(self) -> int:
        return len(self._begins)

    def take(self, numbers: np.ndarray) -> "RowStream":
        """The rows with these numbers, as a stream."""
        part = copy.copy(self)
        part._begins, part.codes = self._begins[numbers], self.codes[numbers]
        part.numbers = None if self.numbers is None else self.numbers[numbers]
        return part

    def read(self, numbers: Sequence[int] | np.ndarray) -> Rows:
        """The rows with these numbers, in this order."""
        numbers = np.asarray(numbers)
        self._file.check_unchanged()
        with self._lock:
            cells = [next(self._parser.cells(self._file.at(begin)))[1] for begin in self._begins[numbers].tolist()]
        table = self._parser.table(list(zip((numbers + 1).tolist(), cells, strict=True)))
        return self._read_rows(table, self._reading)

    def _index(self, skip_empty: bool) -> None:
        """Find out where the rows begin, and their targets."""
        parser, started = self._parser, time.monotonic()
        logger.info("Reading %s once, to find its rows and targets.", self.path)
        if parser.is_delimited:
            parser.look(line for _, line in self._file.all())
        found = _Found(lambda table: self._read_rows(table, self._reading), parser, skip_empty)
        begins, first = array("q"), 1  # where lines begin, from the line with the number `first` on
        rows = parser.rows(self._file.all(begins))
        with bar(f"Reading {os.path.basename(self.path)}", self._file.size) as advance:
            while chunk := list(islice(rows, CHUNK)):
                if first == 1:
                    parser.look_for_columns(chunk)
                found.add(parser.table(chunk), [begins[line - first] for line, _ in chunk])
                done = chunk[-1][0] - first
                advance(begins[done] - begins[0])
                del begins[:done]
                first += done
        parser.check_any(found.begins or found.empty)
        found.report(self.path)
        parser.bad = BadRows(self.path)
        self.sample, self._begins = found.sample(), np.frombuffer(found.begins, "int64")
        self.codes = np.frombuffer(found.codes, "int32")
        self.numbers = np.frombuffer(found.numbers) if found.numbers else None
        seconds = time.monotonic() - started
        logger.info(
            "%s has %d %s, found in %.0f seconds. It is read as a stream.",
            self.path, len(self), plural("row", len(self)), seconds,
        )  # fmt: skip


class _Found:
    """What was found in the rows so far: where they begin, their targets, and the rows that cannot be used."""

    def __init__(self, rows_of: Callable[[Table], Rows], parser: TableParser, skip_empty: bool) -> None:
        self.begins, self.codes, self.numbers = array("q"), array("i"), array("d")
        self.empty = 0  # rows without a text
        self._first_empty = 0  # line
        self._rows_of = rows_of
        self._bad = parser.bad
        self._has_all_columns = parser.is_delimited  # in JSON lines, a column may come later
        self._skip_empty = skip_empty
        self._code: dict[Hashable, int] = {}  # of each label
        self._sample: list[Rows] = []  # each of one row

    def add(self, table: Table, begins: list[int]) -> None:
        """Add the rows of a table that can be used."""
        try:
            rows = self._rows_of(table)
            labels = self._labels(rows, table)
        except ValueError as error:
            if isinstance(error, NoColumnError) and self._has_all_columns:
                raise
            if len(begins) > 1:  # find the row
                half = len(begins) // 2
                self.add(table[:half], begins[:half])
                self.add(table[half:], begins[half:])
            elif isinstance(error, NoTextError) and self._skip_empty:
                self.empty += 1
                self._first_empty = self._first_empty or table.lines[0]
            else:
                self._bad.add(table.lines[0], error)
            return
        self.begins.extend(begins)
        for row, label in enumerate(labels):
            if label not in self._code:
                self._code[label] = len(self._code)
                self._sample.append(rows[row : row + 1])
            self.codes.append(self._code[label])
        if not labels:
            self.codes.extend([0] * len(rows))
            self._sample = _extremes(self._sample, rows) if rows.y else _different(self._sample, rows)
            self.numbers.extend(rows.y)

    def _labels(self, rows: Rows, table: Table) -> list[Hashable]:
        """The label of each row, a tuple for a list of labels; none if the rows have scores or no targets."""
        labels = [tuple(y) if isinstance(y, list) else y for y in rows.y if not isinstance(y, float)]
        first = next(iter(self._code), labels[0] if labels else None)
        for row, label in enumerate(labels):
            if isinstance(label, tuple) != isinstance(first, tuple):
                kind = "a" if isinstance(label, tuple) else "no"
                raise ValueError(
                    f"{table.place(row)}: the row has {kind} list of labels, unlike the rows before it. Write a list "
                    f"in each row, or in none. Received: {rows.y[row]!r}"
                )
        return labels

    def report(self, path: str) -> None:
        """Log the rows that are dropped; an error if none is left."""
        self._bad.report(len(self.begins) + self.empty)
        if not self.begins:
            raise ValueError(f"Every text in {path} is empty. Name another column. Received: {path}")
        if self.empty:
            rows = plural("row", self.empty)
            logger.warning(
                "Dropped %d %s with an empty text, the first at %s:%d", self.empty, rows, path, self._first_empty
            )

    def sample(self) -> Rows:
        """The rows that were kept."""
        x = tuple([one for (one,) in column] for column in zip(*(part.columns for part in self._sample), strict=True))
        first = self._sample[0]
        y, ids = [one for part in self._sample for one in part.y], [part.ids[0] for part in self._sample]
        return Rows(x if isinstance(first.x, tuple) else x[0], y, first.path, ids, first.unit)


def _extremes(sample: list[Rows], rows: Rows) -> list[Rows]:
    """The rows with the lowest and the highest score."""
    found = [*sample, *(rows[row : row + 1] for row in (int(np.argmin(rows.y)), int(np.argmax(rows.y))))]
    found.sort(key=lambda one: one.y[0])
    return [found[0], found[-1]]


def _different(sample: list[Rows], rows: Rows) -> list[Rows]:
    """The first row, and the first one with another text to be found, which is the second of a row or the only one."""
    first, *others = sample or [rows[:1]]
    if not others:
        (same,) = _sought(first)
        row = next((row for row, text in enumerate(_sought(rows)) if text != same), None)
        others = [] if row is None else [rows[row : row + 1]]
    return [first, *others]


def _sought(rows: Rows) -> list[str]:
    return rows.x[1] if isinstance(rows.x, tuple) else rows.x
