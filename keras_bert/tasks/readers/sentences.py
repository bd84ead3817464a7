"""Rows of a `SentenceEmbedder` from a file: one to three columns of texts, with labels, scores or neither."""

import logging
import os

from keras_bert.tasks.readers.columns import read_labels, read_scores, read_texts
from keras_bert.tasks.readers.only_texts import has_only_texts
from keras_bert.tasks.readers.reading import Reading
from keras_bert.tasks.readers.rows import Rows
from keras_bert.wording import plural

logger = logging.getLogger("keras_bert")


def read_sentences(path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
    """One column of texts has labels, three have none; two have scores if the file has the label's column."""
    count, label = len(reading.text), reading.label if labels else None
    if labels and reading.format_of(path) == "label-text":
        advice = "With --lines only those of the training file are texts without labels."
        if not reading.lines:
            advice = "If the lines are texts without labels, add --lines."
        logger.info("%s: the first word of each line is its label. %s", path, advice)
    if count == 1:
        return read_labels(path, reading.text[0], label, **reading.table_options)
    if count == 3 and label not in (None, "label"):
        raise ValueError(
            "`label` was given, but pairs with negatives have no label. Leave out --label, or the third column of "
            f"texts. Received: label={label!r}, text={reading.text}"
        )
    if count == 3:
        label = None
    elif label == "label" and not _has_column(path, reading, "label"):
        logger.info(
            "%s has no column 'label', so the two texts of each pair count as a match. If a column has scores, "
            "name it: --label score.",
            path,
        )
        label = None
    options = reading.table_options | {"needs_text": labels}
    return read_scores(path, reading.text, label, scale=reading.scale, **options)


def read_training_sentences(path: str | os.PathLike, reading: Reading) -> Rows:
    """The same of a training file; a file that has only texts, see `has_only_texts`, is read without labels."""
    if not has_only_texts(path, reading):
        rows = read_sentences(path, reading)
        return _without_same(rows) if reading.skip_bad else rows
    logger.info(
        "%s has only texts, without labels. Each text is learned as a match of itself under another dropout "
        "(SimCSE). --text and --label name the columns of the validation file.",
        path,
    )
    return read_texts(path, reading)


def _without_same(rows: Rows) -> Rows:
    """The rows without those whose negative is their positive."""
    if not isinstance(rows.x, tuple) or len(rows.x) < 3:
        return rows
    kept = [row for row in range(len(rows)) if rows.x[1][row] != rows.x[2][row]]
    if kept and (dropped := len(rows) - len(kept)):
        logger.warning(
            "Dropped %d %s of %s whose negative is the same text as the positive.",
            dropped, plural("row", dropped), rows.path,
        )  # fmt: skip
        return rows.take(kept)
    return rows


def _has_column(path: str | os.PathLike, reading: Reading, name: str) -> bool:
    """Whether the header of a file has a column of this name."""
    return reading.header is not False and name in (reading.table(path, header=True).names or ())
