"""Training files that have only texts, without labels; the columns that a run names are then of its other file."""

import os

from keras_bert.tasks.readers.reading import Reading


def has_only_texts(path: str | os.PathLike, reading: Reading) -> bool:
    """Whether each line of a file is a text, or the file is a table with a single column."""
    if reading.lines:
        return True
    table = reading.table(path)
    # With a hint, the columns of the file seem to be separated by another character.
    return len(table.rows[0] if table.names is None else table.names) == 1 and not table.hint


def cannot_split(path: str | os.PathLike, split: float) -> ValueError:
    """The error if rows of such a file are to be held out."""
    return ValueError(
        f"{path} has only texts without labels. They can be trained on, but not evaluated, so none can be held out. In "
        f"place of `split`, name a validation file (--valid) of pairs, scores or labels. Received: split={split:g}"
    )
