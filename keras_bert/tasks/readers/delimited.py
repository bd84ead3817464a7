"""Rows of TSV and CSV files: cells separated by a character, with quotes or without.

Python's csv reads them, also where pandas or pyarrow is installed: an error can name the line, large files are read in
parts, and a file has the same rows on every machine. Rows are tuples and not lists, because Python's garbage collector
ignores tuples of strings; with lists, it took more than half of the time.
"""

import csv
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from keras_bert.tasks.readers.bad_rows import BadRows
from keras_bert.tasks.readers.rows import Line
from keras_bert.text_encoding import UndecodedLine

DELIMITERS = {"tsv": "\t", "csv": ","}
OTHERS = (";", "\t", ",", "|")  # that a file may have instead
NEARLY_ALL = 0.8
LONGEST = 1 << 24  # characters of a quoted cell, where it matters that a quote may never be closed
_QUOTED = re.compile('"(?:[^"]|"")*"')

Row = tuple[int, tuple[str, ...]]  # the number of the line that it begins on, and its cells


def checked_delimiter(delimiter: str) -> str:
    """A delimiter of one character; `tab` and `\\t` are names of the tab, which is hard to type in a shell.

    >>> checked_delimiter("tab")
    '\\t'
    """
    delimiter = "\t" if delimiter in ("tab", "\\t") else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(
            "`delimiter` must be one character, and neither a quote nor the end of a line. Use ';', ',', '|' or 'tab'. "
            f"Received: delimiter={delimiter!r}"
        )
    return delimiter


def is_quoted(lines: Iterable[str], delimiter: str) -> bool | None:
    """Whether the quotes in a TSV file are around cells, and not parts of the texts; None if it can be either.

    They are if each quote is part of a quoted cell, and this makes a difference: a cell contains a delimiter, a line
    break or (after its begin) a doubled quote, or all cells that are not numbers are quoted. Where the quotes would
    join rows that are even without this, it can be either, unless there is only one column and a cell in it has a
    doubled quote. If every cell with quotes begins with three of them, the texts had quotes around them before, as
    those of NSMC, which everyone reads as they are in the file.

    >>> is_quoted(['"a ""good"" film"\\tyes', 'bad\\tno'], "\\t"), is_quoted(['"good" film\\tyes'], "\\t")
    (True, False)
    """
    ends = rf"{re.escape(delimiter)}\n"
    quoted = re.compile(rf'(?<![^{ends}])"(?:[^"]++|"")*+"(?=[{ends}]|\Z)')
    widths: set[int] = set()  # of lines, in delimiters
    words: list[bool] = []  # whether the header, and then the rows, have cells without quotes that are no numbers
    # Whether quotes join cells or lines; whether they change a cell at all; whether one in a cell is doubled.
    joins = changes = doubled = any_quotes = False

    def counted() -> Iterator[str]:
        for line in lines:
            if line:
                widths.add(line.count(delimiter))
            yield line

    for number, text in enumerate(_with_closed_quotes(counted())):
        cells, rest = (quoted.findall(text), quoted.sub("", text)) if '"' in text else ([], text)
        if '"' in rest:
            return False
        any_quotes |= bool(cells)
        joins |= any(delimiter in cell or "\n" in cell for cell in cells)
        doubled |= any('""' in cell[1:-1] and not cell.startswith('"""') for cell in cells)
        changes |= doubled or any("\r" in cell for cell in cells)
        if number == 0 or (len(words) == 1 and (rest or number > 1)):
            words.append(False)
        words[-1] = words[-1] or bool(re.search(r"[^\s\d.,eE+-]", rest.replace(delimiter, "")))
    if joins:
        return len(widths) > 1 or (widths == {0} and doubled) or None
    return any_quotes and (changes or not words[-1])


def _with_closed_quotes(lines: Iterable[str]) -> Iterator[str]:
    """The lines, joined where a quote is open. A quote that is never closed is the end, and remains in the text."""
    parts: list[str] = []
    size, is_open = 0, False
    for line in lines:
        parts.append(line)
        size += len(line)
        is_open ^= line.count('"') % 2 == 1
        if not is_open or size > LONGEST:
            yield "\n".join(parts)
            parts, size, is_open = [], 0, False
    if parts:
        yield "\n".join(parts)


def other_delimiter(lines: Iterable[str], delimiter: str) -> str:
    """The delimiter that a file seems to have in place of this one; empty if it seems to have this one.

    A delimiter fits if the first row has it, and nearly all rows have it at least as often, outside of quotes.

    >>> other_delimiter(["text;label", "so, so;1"], ","), other_delimiter(["text;label,1", "so;so,1"], ",")
    (';', '')
    """
    rows = list(islice((text for text in _with_closed_quotes(lines) if text.strip()), 21))
    whole = rows[:-1] if len(rows) > 1 and rows[-1].count('"') % 2 else rows[:20]  # the last may be cut off
    plain = [_QUOTED.sub("", row) for row in whole]

    def fits(one: str) -> bool:
        least = plain[0].count(one)
        return least > 0 and sum(row.count(one) >= least for row in plain) >= NEARLY_ALL * len(plain)

    return "" if not plain or fits(delimiter) else next(filter(fits, OTHERS), "")


def names_in(line: str, delimiter: str) -> list[str]:
    """The names in the first row of a file; empty if they look like parts of a sentence.

    >>> names_in("text;label", ";"), names_in("Review (title, body)", ",")
    (['text', 'label'], [])
    """
    names = next(csv.reader([line], delimiter=delimiter))
    return names if all(name and name == name.strip() for name in names) else []


def name_of(delimiter: str) -> str:
    """The name of a delimiter for `--delimiter`."""
    return "tab" if delimiter == "\t" else delimiter


def quoted_rows(
    path: str | os.PathLike,
    lines: Iterator[Line],
    delimiter: str,
    bad: BadRows,
    *,
    hint: str = "",
    longest: int = sys.maxsize,
) -> Iterator[Row]:
    """The rows of numbered lines whose quotes are as in RFC 4180, without blank lines.

    hint: what may be wrong if the quotes are. longest: the most characters of a cell.
    """
    again: deque[Line] = deque()  # lines after that of a bad row, which are read once more
    held: list[Line] = []  # the lines of the row that is being read

    def next_lines() -> Iterator[str]:
        while (numbered := again.popleft() if again else next(lines, None)) is not None:
            held.append(numbered)
            yield numbered[1] + "\n"

    limit = csv.field_size_limit(longest)  # a context may be longer than the default limit of 131,072 characters
    try:
        while True:  # once, unless bad rows are skipped
            # strict, because a quote that is never closed would take in the rest of the file.
            reader = csv.reader(next_lines(), delimiter=delimiter, strict=True)
            try:
                for row in reader:
                    begin = held[0][0]
                    undecoded = next((line for _, line in held if isinstance(line, UndecodedLine)), None)
                    held.clear()
                    if undecoded is not None:
                        bad.add(begin, undecoded.error)
                    elif row:
                        yield begin, tuple(row)
                return
            except csv.Error as error:
                bad.add(held[0][0], _wrong_quotes(path, held[0][0], delimiter, hint, error))
                again.extendleft(reversed(held[1:]))
                held.clear()
    finally:
        csv.field_size_limit(limit)


def _wrong_quotes(path: str | os.PathLike, line: int, delimiter: str, hint: str, error: csv.Error) -> ValueError:
    if "new-line" in str(error):
        return ValueError(
            f"{path}, line {line}: the row that begins here has a carriage return outside of quotes. Put quotes around "
            f"the field, or replace the character. Received: {error}"
        )
    advice = hint.strip() or (
        "Close them, and double those inside a field; or, if quotes are ordinary characters in this file, add --format "
        f"tsv --delimiter '{name_of(delimiter)}'."
    )
    return ValueError(f"{path}, line {line}: the row that begins here has wrong quotes. {advice} Received: {error}")
