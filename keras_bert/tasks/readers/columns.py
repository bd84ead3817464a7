"""Rows of a table: labelled texts, scored pairs, prompts with choices."""

import logging
import math
import os
import re
from collections.abc import Sequence
from typing import Any

from keras_bert.tasks.columns import LARGEST
from keras_bert.tasks.readers.rows import Rows
from keras_bert.tasks.readers.table import Column, Table, read_table

logger = logging.getLogger("keras_bert")
DECIMAL = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


def read_labels(
    path: str | os.PathLike,
    text: Column | Sequence[Column] = "text",
    label: Column | None = "label",
    *,
    separator: str | None = None,
    **options: Any,
) -> Rows:
    """Texts or pairs with label names, for a `TextClassifier`.

    Args:
        text: a column, by name or number, or two columns for pairs.
        label: the column of the label; None if the file has none.
        separator: separates the labels of one text. `y` then holds lists, as it does where a JSONL file has lists.
        options: of every reader of tables: `format` ("tsv", "csv", "jsonl" or "label-text"; by default from the
            suffix), `header` (by default True if a column is given by name) and `skip_empty` (drop rows with an empty
            text).

    >>> examples = read_labels("train.tsv", ("premise", "hypothesis"), "gold_label")    # doctest: +SKIP
    """
    table, x = _read(path, text, label, **options)
    return Rows(x, [] if label is None else _labels(table, label, separator), table.path, table.lines)


def read_scores(
    path: str | os.PathLike,
    text: Column | Sequence[Column] = "text",
    score: Column | None = "score",
    *,
    scale: float = 1.0,
    **options: Any,
) -> Rows:
    """Texts or pairs with numbers, divided by `scale`, for a `TextRegressor`; options as of `read_labels`."""
    if not 0 < scale < math.inf:  # nor NaN
        raise ValueError(f"scale must be a number above 0. Scores are divided by it. Received: scale={scale}")
    table, x = _read(path, text, score, **options)
    values = [] if score is None else table.column(score)
    y = [_number(table, score, row, value, scale) for row, value in enumerate(values)]
    return Rows(x, y, table.path, table.lines)


def read_choices(
    path: str | os.PathLike, prompt: Column, choices: Sequence[Column], label: Column | None = "label", **options: Any
) -> Rows:
    """Prompts, each with its choices and the number of the right one, from 0, for a `MultipleChoice`."""
    table, (prompts, *columns) = _read(path, (prompt, *choices), label, **options)
    y = [] if label is None else [_choice(table, len(choices), *pair) for pair in enumerate(table.column(label))]
    return Rows((prompts, [list(row) for row in zip(*columns, strict=True)]), y, table.path, table.lines)


def _read(
    path: str | os.PathLike,
    text: Column | Sequence[Column],
    label: Column | None,
    *,
    format: str | None = None,
    header: bool | None = None,
    skip_empty: bool = False,
) -> tuple[Table, Any]:
    texts = (text,) if isinstance(text, str | int) else tuple(text)
    if header is None:
        header = any(isinstance(column, str) for column in (*texts, label))
    table = read_table(path, format=format, header=header)
    columns = [table.column(column) for column in texts]
    full = [row for row in range(len(table.rows)) if all(_has_text(table, texts, columns, row, skip_empty))]
    if not full:
        raise ValueError(f"Every text in {table.path} is empty. Name another column. Received: text={text!r}")
    if len(full) < len(table.rows):
        empty = next(row for row in range(len(table.rows)) if row >= len(full) or full[row] != row)
        left_out = len(table.rows) - len(full)
        logger.warning("Dropped %d rows with an empty text, the first at %s:%d", left_out, path, table.lines[empty])
    table = Table(table.path, table.names, [table.rows[row] for row in full], [table.lines[row] for row in full])
    chosen = tuple([column[row] for row in full] for column in columns)
    return table, chosen if len(texts) > 1 else chosen[0]


def _has_text(table: Table, names: Sequence[Column], columns: list[list[Any]], row: int, skip_empty: bool) -> Any:
    for name, column in zip(names, columns, strict=True):
        text = column[row]
        if not isinstance(text, str) and text is not None:
            raise ValueError(
                f"{table.place(row)}: the text in column {name!r} is not a string. Put it in "
                f"quotes, or name another column. Received: {text!r}"
            )
        if not (text or "").strip() and not skip_empty:
            raise ValueError(
                f"{table.place(row)}: column {name!r} has no text. Fill it in, or drop such rows "
                f"with --skip-empty (skip_empty=True). Received: {text!r}"
            )
        yield bool((text or "").strip())


def _labels(table: Table, column: Column, separator: str | None) -> list[Any]:
    """The label of each row, or the list of its labels."""
    values = table.column(column)
    lists = any(isinstance(value, list) for value in values)
    found: list[Any] = []
    for row, value in enumerate(values):
        place = f"{table.place(row)}: column {column!r}"
        if lists:
            if not isinstance(value, list):
                raise ValueError(
                    f"{place} has no list of labels, as other rows have. Put the label in a list. Received: {value!r}"
                )
            found.append([_label(name, place) for name in value])
        elif separator is not None:
            found.append([name.strip() for name in _label(value, place).split(separator) if name.strip()])
        else:
            found.append(_label(value, place))
    return found


def _label(value: Any, place: str) -> str:
    if value is None or not str(value).strip():
        raise ValueError(f"{place} has no label. Fill it in, or drop the row. Received: {value!r}")
    if not isinstance(value, str | int) or DECIMAL.fullmatch(str(value)):
        raise ValueError(
            f"{place} has a label that is neither a name nor a whole number. For scores, train a TextRegressor "
            f"(keras-bert finetune regress). Received: {value!r}"
        )
    return str(value).strip()


def _number(table: Table, column: Column | None, row: int, value: Any, scale: float) -> float:
    try:
        number = float(value) / scale
    except (TypeError, ValueError, OverflowError):  # the last: a whole number of 400 digits
        number = math.nan
    if not abs(number) <= LARGEST:  # nor NaN
        raise ValueError(
            f"{table.place(row)}: the score in column {column!r} is not a finite float32 number. "
            f"Correct it, or drop the row. Received: {value!r}"
        )
    return number


def _choice(table: Table, choices: int, row: int, value: Any) -> int:
    digits = str(value)
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) < choices):
        raise ValueError(
            f"{table.place(row)}: the right choice is not a number from 0 to {choices - 1}. Correct "
            f"it. Received: {value!r}"
        )
    return int(value)
