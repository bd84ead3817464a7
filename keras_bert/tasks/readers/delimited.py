"""Rows of TSV and CSV files: cells separated by a character, with quotes or without."""

import csv
import os
import re
import sys
from itertools import islice

from keras_bert.tasks.readers.bad_rows import BadRows

DELIMITERS = {"tsv": "\t", "csv": ","}
OTHERS = (";", "\t", ",", "|")  # that a file may have instead

Row = tuple[int, list[str]]  # the number of the line that it begins on, and its cells


def checked_delimiter(delimiter: str) -> str:
    """A delimiter of one character; `tab` and `\\t` are names of the tab, which is hard to type in a shell.

    >>> checked_delimiter("tab")
    '\\t'
    """
    delimiter = "\t" if delimiter in ("tab", "\\t") else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(
            "delimiter must be one character, and neither a quote nor the end of a line. Use ';', ',', '|' or 'tab'. "
            f"Received: delimiter={delimiter!r}"
        )
    return delimiter


def delimited_rows(path: str | os.PathLike, lines: list[str], format: str, delimiter: str, bad: BadRows) -> list[Row]:
    """The rows of all lines of a file, without blank lines.

    CSV has quotes as in RFC 4180. TSV has them if they are used in that way throughout, as pandas writes them;
    otherwise a quote in it is a character like any other.
    """
    if format == "csv" or is_quoted(lines, delimiter):
        return _quoted_rows(path, lines, delimiter, bad)
    return [(number, line.split(delimiter)) for number, line in enumerate(lines, 1) if line]


def is_quoted(lines: list[str], delimiter: str) -> bool:
    """Whether the quotes in a file are around cells, and not parts of the texts.

    They are if each quote is part of a quoted cell, and this makes a difference: a cell contains a delimiter, a line
    break or (after its begin) a doubled quote, or all cells that are not numbers are quoted. Rows that are even without
    this stay as they are if the quotes would join them. If every cell with quotes begins with three of them, the texts
    had quotes around them before, as those of NSMC, which everyone reads as they are in the file.

    >>> is_quoted(['"a ""good"" film"\\tyes', 'bad\\tno'], "\\t"), is_quoted(['"good" film\\tyes'], "\\t")
    (True, False)
    """
    if not any('"' in line for line in lines):
        return False
    text, ends = "\n".join(lines), rf"{re.escape(delimiter)}\n"
    quoted = re.compile(rf'(?<![^{ends}])"(?:[^"]++|"")*+"(?=[{ends}]|\Z)')
    cells, rest = quoted.findall(text), quoted.sub("", text)
    if '"' in rest:
        return False
    if any(delimiter in cell or "\n" in cell for cell in cells):
        return len({line.count(delimiter) for line in lines if line}) > 1
    header, _, body = rest.partition("\n")
    only_numbers_without = not re.search(r"[^\s\d.,eE+-]", (body or header).replace(delimiter, ""))
    doubled = any('""' in cell[1:-1] and not cell.startswith('"""') for cell in cells)
    return doubled or any("\r" in cell for cell in cells) or only_numbers_without


def other_delimiter(lines: list[str], delimiter: str) -> str:
    """A sentence that names the delimiter which a file seems to have instead; empty if it seems to have this one."""
    first = list(islice((line for line in lines if line), 5))
    for other in OTHERS if first else ():
        if delimiter not in first[0] and all(0 < first[0].count(other) <= line.count(other) for line in first):
            name = "tab" if other == "\t" else other
            return f" Its columns seem to be separated by {other!r} and not by {delimiter!r}: add --delimiter '{name}'."
    return ""


def _quoted_rows(path: str | os.PathLike, lines: list[str], delimiter: str, bad: BadRows) -> list[Row]:
    rows: list[Row] = []
    limit = csv.field_size_limit(sys.maxsize)  # a context may be longer than the default limit of 131,072 characters
    start = 0
    try:
        while start < len(lines):  # once, unless bad rows are skipped
            rest = (line + "\n" for line in islice(lines, start, None))
            # strict, because a quote that is never closed would take in the rest of the file.
            reader = csv.reader(rest, delimiter=delimiter, strict=True)
            begin = start
            try:
                for row in reader:
                    if row:
                        rows.append((begin + 1, row))
                    begin = start + reader.line_num
                break
            except csv.Error as error:
                bad.add(begin + 1, _wrong_quotes(path, begin + 1, delimiter, other_delimiter(lines, delimiter), error))
                start = begin + 1
    finally:
        csv.field_size_limit(limit)
    return rows


def _wrong_quotes(path: str | os.PathLike, line: int, delimiter: str, hint: str, error: csv.Error) -> ValueError:
    name = "tab" if delimiter == "\t" else delimiter
    advice = hint.strip() or (
        "Close them, and double those inside a field; or, if quotes are only characters in this file, add --format tsv "
        f"--delimiter '{name}'."
    )
    return ValueError(f"{path}, line {line}: the row that begins here has wrong quotes. {advice} Received: {error}")
