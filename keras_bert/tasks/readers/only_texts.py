"""Training files that have only texts, without labels; the columns that a run names are then of its other file."""

import os
from pathlib import Path

from keras_bert.tasks.readers.reading import Reading
from keras_bert.tasks.readers.rows import Rows
from keras_bert.tasks.readers.table import SUFFIXES


def has_only_texts(path: str | os.PathLike, reading: Reading) -> bool:
    """Whether each line of a file is a text, or the file is a table with a single column."""
    if reading.lines:
        check_lines(path)
        return True
    table = reading.table(path)
    # With a hint, the columns of the file seem to be separated by another character.
    return len(table.rows[0] if table.names is None else table.names) == 1 and not table.hint


def check_lines(path: str | os.PathLike) -> None:
    """Refuse to read the lines of a table as texts."""
    if (form := SUFFIXES.get(Path(path).suffix.lower(), "label-text")) != "label-text":
        raise ValueError(
            f"With `lines` (--lines), each line of a file is a text, but {path} is a table ({form}) by its name. "
            "Leave out --lines, or rename the file to .txt. Received: lines=True"
        )


def check_held_out(rows: Rows, split: float | None, valid: str | None) -> None:
    """Refuse to hold out rows of such a file, or to validate on it."""
    if rows.y or isinstance(rows.x, tuple):
        return
    if split is not None:
        raise ValueError(
            f"{rows.path} has only texts without labels. They can be trained on, but not evaluated, so none can be "
            "held out. In place of `split`, name a validation file (--valid) of pairs, scores or labels. "
            f"Received: split={split:g}"
        )
    if Path(str(valid)).samefile(rows.path):
        raise ValueError(
            f"{rows.path} has only texts without labels. They can be trained on, but not evaluated. Name another "
            f"validation file (--valid), of pairs, scores or labels. Received: valid={valid!r}"
        )
