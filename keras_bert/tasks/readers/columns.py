"""Rows of a table: labelled texts, scored pairs, prompts with choices."""

import logging
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from keras_bert.checks import check_above_zero
from keras_bert.tasks.columns.value_columns import LARGEST, category_of
from keras_bert.tasks.readers.bad_rows import DROP, BadRows
from keras_bert.tasks.readers.reading import Reading
from keras_bert.tasks.readers.rows import Rows
from keras_bert.tasks.readers.table import LINES, Column, Table, read_table
from keras_bert.text_encoding import composed, is_blank
from keras_bert.wording import plural

logger = logging.getLogger("keras_bert")
DECIMAL = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
WHOLE = re.compile(r"[+-]?\d+\.0+")  # as pandas writes whole numbers if a row of the column has none


class NoTextError(ValueError):
    """A row has no text."""


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
        label: the column of the label; None to read only texts, to be answered. Empty texts are then rows too.
        separator: separates the labels of one text. `y` then holds lists, as it does where a JSONL file has lists. A
            cell with only the separator has none of the labels.
        number, category: columns that a model reads beside the texts; `x` has them after the texts.
        options: of every reader of tables: `format` ("tsv", "csv", "jsonl" or "label-text"; by default from the
            suffix), `header` (by default True if a column is given by name), `delimiter`, `encoding`, `skip_empty`
            (drop rows with an empty text) and `skip_bad` (drop rows that cannot be read, or have no text or label).

    >>> examples = read_labels("train.tsv", ("premise", "hypothesis"), "gold_label")    # doctest: +SKIP
    """

    def labels(value: Any, place: str, lists: str) -> Any:
        return _labels(value, f"{place}: column {label!r}", separator, lists)

    return _read(path, text, label, labels, **options)


def read_scores(
    path: str | os.PathLike,
    text: Column | Sequence[Column] = "text",
    score: Column | None = "score",
    *,
    scale: float = 1.0,
    **options: Any,
) -> Rows:
    """Texts or pairs with numbers, divided by `scale`, for a `TextRegressor`; options as of `read_labels`."""
    check_above_zero("scale", scale, "Scores are divided by it.")

    def number(value: Any, place: str, lists: str) -> float:
        return number_of(value, f"{place}: the score in column {score!r}", scale)

    return _read(path, text, score, number, **options)


def read_choices(
    path: str | os.PathLike, prompt: Column, choices: Sequence[Column], label: Column | None = "label", **options: Any
) -> Rows:
    """Prompts, each with its choices and the number of the right one, from 0, for a `MultipleChoice`."""

    def choice(value: Any, place: str, lists: str) -> int:
        return _choice(value, f"{place}: the label in column {label!r}", len(choices))

    rows = _read(path, (prompt, *choices), label, choice, **options)
    prompts, *columns = rows.x
    return Rows((prompts, [list(row) for row in zip(*columns, strict=True)]), rows.y, rows.path, rows.ids, rows.unit)


def labelled_rows(path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
    """Texts or pairs with labels; with labels=False, here and in the next, only what the task is asked."""
    label = reading.label if labels else None
    options = reading.table_options | {"number": reading.number, "category": reading.category}
    return read_labels(path, reading.texts, label, separator=reading.separator, **options)


def scored_rows(path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
    """Texts or pairs with numbers."""
    label = reading.label if labels else None
    options = reading.table_options | {"number": reading.number, "category": reading.category}
    return read_scores(path, reading.texts, label, scale=reading.scale, **options)


def choice_rows(path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
    """Prompts with choices, and the number of the right one."""
    if len(reading.text) != 1 or len(reading.choices) < 2:
        raise ValueError(
            f"The columns of {path} do not make prompts and choices. Name one column for the prompt (--text) and "
            "two or more for the choices (--choice for each); in Python, use read_choices(path, prompt, choices). "
            f"Received: text={reading.text}, choices={reading.choices}"
        )
    return read_choices(
        path, reading.text[0], reading.choices, reading.label if labels else None, **reading.table_options
    )


def read_texts(path: str | os.PathLike, reading: Reading) -> Rows:
    """The texts of a training file that has nothing else, see `only_texts`. Blank lines are no texts."""
    options = reading.table_options | {"header": reading.has_header}
    if reading.lines:
        options["format"] = LINES
    return read_labels(path, 0, None, needs_text=True, **options)


def _read(
    path: str | os.PathLike,
    text: Column | Sequence[Column],
    label: Column | None,
    target_of: Callable[[Any, str, str], Any],
    *,
    header: bool | None = None,
    skip_empty: bool = False,
    skip_bad: bool = False,
    needs_text: bool | None = None,
    number: Sequence[Column] = (),
    category: Sequence[Column] = (),
    **options: Any,
) -> Rows:
    """The rows of a table. `target_of` makes `y` of a cell, of its place, and of the place of the first list, if any.

    needs_text: whether an empty text is an error; None: it is if there is a label, since the rows are not answered.
    """
    if needs_text is None:
        needs_text = label is not None
    names = (text,) if isinstance(text, str | int) else tuple(text)
    if header is None:
        header = any(isinstance(column, str) for column in (*names, *number, *category, label))
    bad = BadRows(path, skip_bad)
    table = read_table(path, header=header, bad=bad, **options)
    columns = [table.column(name) for name in names]
    targets = [] if label is None else table.column(label)
    of_others: list[tuple[Column, list[Any], Callable[..., Any]]]
    of_others = [(name, table.column(name), number_of) for name in number]
    of_others += [(name, table.column(name), _category) for name in category]
    others: list[list[Any]] = [[] for _ in of_others]  # columns
    lists = next((table.place(row) for row, target in enumerate(targets) if isinstance(target, list)), "")
    kept: list[int] = []  # rows
    y: list[Any] = []
    empty: list[int] = []  # lines
    for row, line in enumerate(table.lines):
        try:
            missing = [
                name
                for name, column in zip(names, columns, strict=True)
                if is_blank(text_of(column[row], name, table, row))
            ]
            if missing:
                empty.append(line)
                if skip_empty:
                    continue
                if needs_text:
                    raise NoTextError(
                        f"{table.place(row)}: column {missing[0]!r} has no text. Fill it in, or drop such rows with "
                        f"--skip-empty (skip_empty=True). Received: {columns[names.index(missing[0])][row]!r}"
                    )
            values = [
                read(cells[row], f"{table.place(row)}: the value in column {name!r}") for name, cells, read in of_others
            ]
            if label is not None:
                y.append(target_of(targets[row], table.place(row), lists))
            for column, value in zip(others, values, strict=True):
                column.append(value)
            kept.append(row)
        except ValueError as error:
            bad.add(line, error)
    bad.report(len(kept) + len(empty))
    if not kept:
        raise ValueError(f"Every text in {table.path} is empty. Name another column. Received: text={text!r}")
    if empty and skip_empty:
        rows = plural("row", len(empty))
        logger.warning("Dropped %d %s with an empty text, the first at %s:%d", len(empty), rows, path, empty[0])
    elif empty and not needs_text:
        logger.warning(
            "%d %s an empty text, and an answer too; the first is at %s:%d. Use --skip-empty to drop them.",
            len(empty), "row has" if len(empty) == 1 else "rows have", path, empty[0],
        )  # fmt: skip
    x = tuple([column[row] or "" for row in kept] for column in columns)
    x += tuple(others)
    return Rows(x if len(x) > 1 else x[0], y, table.path, [table.lines[row] for row in kept], table.unit)


def text_of(value: Any, name: Column, table: Table, row: int) -> str:
    """The text in a cell of a column, empty if a row of JSONL does not have it; an error for other values."""
    if not isinstance(value, str) and value is not None:
        raise ValueError(
            f"{table.place(row)}: the text in column {name!r} is not a string. Put it in "
            f"quotes, or name another column. Received: {value!r}"
        )
    return value or ""


def _labels(value: Any, place: str, separator: str | None, lists: str) -> Any:
    """The label of a row, or the list of its labels."""
    if lists:
        if not isinstance(value, list):
            raise ValueError(
                f"{place} has no list of labels, but {lists}, has one. Put all labels in lists, or none. "
                f"Received: {value!r}"
            )
        return [_label(name, place) for name in value]
    if separator is not None:
        none = f", or write only {separator!r} if the text has none of the labels" if separator.strip() else ""
        return [name.strip() for name in _label(value, place, none).split(separator) if name.strip()]
    return _label(value, place)


def _label(value: Any, place: str, none: str = "") -> str:
    """The label in a cell. none: how an error says that a text has no label."""
    if value is None or not str(value).strip() or value != value:  # NaN
        raise ValueError(f"{place} has no label. Fill it in{none}, or {DROP}. Received: {value!r}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    name = composed(str(value).strip())
    if WHOLE.fullmatch(name):
        name = name.partition(".")[0]
    if not isinstance(value, str | int) or DECIMAL.fullmatch(name):
        raise ValueError(
            f"{place} has a label that is neither a name nor a whole number. Write a name. Scores are for a "
            "TextRegressor (keras-bert finetune regress), or in embed for pairs of texts. "
            f"Received: {value!r}"
        )
    return name


def number_of(value: Any, place: str, scale: float = 1.0, remedy: str = f"Correct it, or {DROP}") -> float:
    """The number in a cell, divided by `scale`."""
    try:
        # Python reads 1_000 and True as numbers.
        number = math.nan if "_" in str(value) or isinstance(value, bool) else float(value) / scale
    except (TypeError, ValueError, OverflowError):  # the last: a whole number of 400 digits
        number = math.nan
    if not abs(number) <= LARGEST:  # nor NaN
        comma = " Write a decimal point, and thousands without commas." if "," in str(value) else ""
        raise ValueError(f"{place} is not a finite float32 number. {remedy}.{comma} Received: {value!r}")
    return number


def _category(value: Any, place: str) -> str:
    category = category_of(value)
    if category is None:
        raise ValueError(f"{place} is neither a name nor a whole number. Correct it, or {DROP}. Received: {value!r}")
    return category


def _choice(value: Any, place: str, choices: int) -> int:
    digits = str(value)
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) < choices):
        raise ValueError(
            f"{place} is not the number of a choice, from 0 to {choices - 1}. Correct it, or {DROP}. "
            f"Received: {value!r}"
        )
    return int(value)
