"""How long it takes to read a table: the rows of a CSV file by keras_bert, beside pandas and pyarrow.

    python benchmarks/tables.py                        a minute: 200,000 film reviews
    python benchmarks/tables.py --rows 1000            to try the script

The file is written by pandas. keras_bert reads it with Python's csv also where pandas or pyarrow is installed, and
knows the line of each row. "Cells" is without the checks of every text and label, which pandas and pyarrow do not make
either. The last two rows show what pyarrow would gain in csv's place: both make the same tuples of the file's decoded
lines, with the line that each row begins on. Needs ../shared/data.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pyarrow.csv
from finetuning_data import DATASETS

from keras_bert.tasks import readers
from keras_bert.tasks.readers.bad_rows import BadRows
from keras_bert.tasks.readers.delimited import Row, quoted_rows
from keras_bert.tasks.readers.rows import lines
from keras_bert.tasks.readers.table import read_table

Columns = list[list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    reviews, _ = DATASETS["nsmc"].read()
    times = -(-asked.rows // len(reviews.x))
    frame = pandas.DataFrame({"text": reviews.x * times, "label": reviews.y * times})[: asked.rows]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reviews.csv"
        frame.to_csv(file, index=False)
        contestants = {
            "keras_bert": lambda: by_keras_bert(file),
            "cells": lambda: by_cells(file),
            "pandas": lambda: by_pandas(file),
            "pyarrow": lambda: by_pyarrow(file),
        }
        numbered = list(lines(file))
        parsers = {
            "lines, csv": lambda: list(quoted_rows(file, iter(numbered), ",", BadRows(file))),
            "lines, pyarrow": lambda: rows_by_pyarrow(numbered),
        }
        if any(read() != by_keras_bert(file) for read in contestants.values()):
            raise SystemExit("The rows differ.")
        if parsers["lines, csv"]() != parsers["lines, pyarrow"]():
            raise SystemExit("The lines of the rows differ.")
        contestants |= parsers
        rounds = [[seconds(read) for read in contestants.values()] for _ in range(asked.rounds)]
        print(f"{len(frame):,} rows, {file.stat().st_size / 1e6:.0f} MB, medians of {asked.rounds} rounds")
    for name, taken in zip(contestants, zip(*rounds, strict=True), strict=True):
        print(f"{name:14} {statistics.median(taken):6.2f} s")


def by_keras_bert(file: Path) -> Columns:
    rows = readers.read_labels(file)
    return [rows.x, rows.y]


def by_cells(file: Path) -> Columns:
    table = read_table(file, header=True)
    return [table.column("text"), table.column("label")]


def by_pandas(file: Path) -> Columns:
    table = pandas.read_csv(file, dtype=str, keep_default_na=False)
    return [table["text"].tolist(), table["label"].tolist()]


def by_pyarrow(file: Any) -> Columns:
    table = pyarrow.csv.read_csv(
        file,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(("text", "label"), pyarrow.string())),
    )
    return [table["text"].to_pylist(), table["label"].to_pylist()]


def rows_by_pyarrow(numbered: list[tuple[int, str]]) -> list[Row]:
    """What `quoted_rows` returns, for a file without empty lines and wrong quotes."""
    text = "\n".join(line for _, line in numbered)
    cells = by_pyarrow(pyarrow.BufferReader(text.encode()))
    rows, line = [(1, ("text", "label"))], 2
    for row in zip(*cells, strict=True):
        rows.append((line, row))
        line += 1 + sum(cell.count("\n") for cell in row)
    return rows


def seconds(read: Callable[[], Any]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    read()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
