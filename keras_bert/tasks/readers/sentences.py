"""Rows of a `SentenceEmbedder` from a file: one to three columns of texts, with labels, scores or neither."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from keras_bert.tasks.readers.bad_rows import DROP
from keras_bert.tasks.readers.columns import read_labels, read_scores, read_texts
from keras_bert.tasks.readers.delimited import DELIMITERS
from keras_bert.tasks.readers.only_texts import check_lines, has_only_texts
from keras_bert.tasks.readers.reading import Reading
from keras_bert.tasks.readers.row_stream import RowStream
from keras_bert.tasks.readers.rows import Rows
from keras_bert.tasks.readers.table import Column, Table
from keras_bert.wording import plural

logger = logging.getLogger("keras_bert")


def read_sentences(path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
    """One column of texts has labels, three have none; two have scores if the file has the label's column."""
    label = _label_column(path, reading) if labels else None
    return _read(path, reading, label, needs_text=labels)


def read_training_sentences(path: str | os.PathLike, reading: Reading) -> Rows:
    """The same of a training file; a file that has only texts, see `has_only_texts`, is read without labels."""
    if not _learns_texts(path, reading):
        rows = read_sentences(path, reading)
        return _without_same(rows) if reading.skip_bad else rows
    return read_texts(path, reading)


def stream_sentences(path: str | os.PathLike, reading: Reading) -> RowStream:
    """The rows of a training file as a stream. Its first rows decide whether it has labels."""
    if reading.lines:
        check_lines(path)
    elif len(reading.text) == 3:
        _label_column(path, reading)  # an error now, which does not depend on the rows
    elif reading.header is None and _may_have_header(path, reading):
        raise ValueError(
            f"The columns of {path} are named by number, so its first row may be names or texts. Pass header=True or "
            f"header=False. Received: header=None, text={reading.text}"
        )
    return RowStream(path, reading, _StreamReader())


def check_negatives(
    positives: Sequence[str], negatives: Sequence[str], place: Callable[[int], str], drop: str = DROP
) -> None:
    """Refuse a negative that is the positive of its own row.

    place: the name of a row. drop: how to drop such rows.
    """
    if same := [row for row, text in enumerate(negatives) if text == positives[row]]:
        count = f"{len(same)} of {len(negatives)} rows are like this. " if len(negatives) > 1 else ""
        raise ValueError(
            f"{place(same[0])}: the negative is the same text as the positive. Give another text, or {drop}. {count}"
            f"Received: {negatives[same[0]]!r}"
        )


class _StreamReader:
    """Reads tables that are parts of one file, all of them as the first one."""

    def __init__(self) -> None:
        self._first: tuple[bool, Column | None] | None = None  # whether it has only texts, and the column of its label

    def __call__(self, table: Table, reading: Reading) -> Rows:
        if self._first is None:
            only_texts = _learns_texts(table, reading)
            self._first = only_texts, None if only_texts else _label_column(table, reading)
        only_texts, label = self._first
        if only_texts:
            _refuse_more(table, (len(row) > 1 for row in table.rows))
            return read_texts(table, reading)
        if label is None and len(reading.text) == 2 and "label" in (table.names or ()):
            _refuse_more(table, (one is not None for one in table.column("label")))
        rows = _read(table, reading, label, needs_text=True)
        if len(reading.text) == 3:
            _, positives, negatives = rows.x
            check_negatives(positives, negatives, rows.place)
        return rows


def _refuse_more(table: Table, more: Iterable[bool]) -> None:
    """Refuse rows that have a column more than the first ones."""
    if (row := next((row for row, has_more in enumerate(more) if has_more), None)) is not None:
        raise ValueError(
            f"{table.place(row)}: the row has a column that the first rows of the file do not have, and these decide "
            f"what is learned. Give all rows the same columns, or {DROP}. "
            f"Received: {', '.join(repr(table.names[column]) for column in table.rows[row])}"  # type: ignore[index]
        )


def _label_column(path: str | os.PathLike, reading: Reading) -> Column | None:
    """The column of the labels or scores; None if pairs have none."""
    count, label = len(reading.text), reading.label
    if reading.format_of(path) == "label-text":
        advice = "With --lines only those of the training file are texts without labels."
        if not reading.lines:
            advice = "If the lines are texts without labels, add --lines."
        logger.info("%s: the first word of each line is its label. %s", path, advice)
    if count == 3:
        if label != "label":
            raise ValueError(
                "`label` was given, but pairs with negatives have no label. Leave out --label, or the third column of "
                f"texts. Received: label={label!r}, text={reading.text}"
            )
        return None
    if count == 2 and label == "label" and not _has_label(path, reading):
        logger.info(
            "%s has no column 'label', so the two texts of each pair count as a match. If a column has scores, "
            "name it: --label score.",
            path,
        )
        if reading.header and _may_have_header(path, reading):
            logger.warning(
                "The first row of %s is read as the names of its columns. If it is a row of texts, add --no-header.",
                path,
            )
        return None
    return label


def _read(path: str | os.PathLike, reading: Reading, label: Column | None, *, needs_text: bool) -> Rows:
    if len(reading.text) == 1:
        rows = read_labels(path, reading.text[0], label, **reading.table_options)
        if (row := next((row for row, y in enumerate(rows.y) if isinstance(y, list)), None)) is not None:
            raise ValueError(
                f"{rows.place(row)}: the text has a list of labels, but texts are compared by one label each. Write "
                f"one label, or {DROP}. Received: {rows.y[row]!r}"
            )
        return rows
    options = reading.table_options | {"needs_text": needs_text}
    return read_scores(path, reading.text, label, scale=reading.scale, **options)


def _learns_texts(path: str | os.PathLike, reading: Reading) -> bool:
    """Whether each text is learned as a match of itself, because a file has only texts."""
    if not has_only_texts(path, reading):
        return False
    logger.info(
        "%s has only texts, without labels. Each text is learned as a match of itself under another dropout "
        "(SimCSE). --text and --label name the columns of the validation file.",
        path,
    )
    return True


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


def _may_have_header(path: str | os.PathLike, reading: Reading) -> bool:
    """Whether columns of pairs are named by number, so that only the default name of the label asks for a header."""
    by_number = all(isinstance(column, int) for column in reading.text) and reading.label == "label"
    return len(reading.text) == 2 and by_number and reading.format_of(path) in DELIMITERS


def _has_label(path: str | os.PathLike, reading: Reading) -> bool:
    """Whether the header of a file has a column with the default name of the label."""
    return reading.header is not False and "label" in (replace(reading, header=True).table(path).names or ())
