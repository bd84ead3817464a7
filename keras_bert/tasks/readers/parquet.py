"""Rows of Parquet files, as lines of JSON."""

import json
import os
from collections.abc import Iterator
from typing import Any

from keras_bert.installation import need
from keras_bert.tasks.readers.rows import Line

BATCH = 1024  # rows
BUFFER = 1 << 20  # bytes that are read at a time


def parquet_lines(path: str | os.PathLike) -> Iterator[Line]:
    """The rows of a Parquet file, numbered from 1, each as a line of JSONL with the same columns."""
    pyarrow, parquet = (need(name, "Reading Parquet files", "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    number = 0
    os.stat(path)  # without a file, the system's error is the right one
    try:
        # Without these two, Arrow keeps all that it has read.
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
            for batch in file.iter_batches(BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield number, json.dumps(row, ensure_ascii=False, default=_plain)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, row {number}: a column of bytes is not text in UTF-8. Write it as a column of strings. "
            f"Received: {error}"
        ) from None
    except (OSError, pyarrow.ArrowException) as error:
        with open(path, "rb") as file:
            if not number and file.read(4) != b"PAR1":
                raise ValueError(f"{path} is not in Parquet's format. Correct --format. Received: {error}") from None
        raise ValueError(
            f"{path} is not a complete Parquet file; {number} of its rows can be read. Get the file again. "
            f"Received: {error}"
        ) from None


def _plain(value: Any) -> str:
    """A value that JSON does not have, such as a date, as text."""
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
