"""Labels by name or id."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.tasks.columns.text_columns import flat, is_missing, rows_of
from keras_bert.tasks.readers.rows import Rows
from keras_bert.text.texts import utf8
from keras_bert.text_encoding import composed
from keras_bert.wording import listed

logger = logging.getLogger("keras_bert")


def check_labels(labels: Any, least: int = 2) -> tuple[str, ...]:
    """The labels of a task as a tuple of names."""
    if isinstance(labels, str | bytes):
        raise TypeError(f"`labels` is a string. Write a tuple of names: ({labels!r}, ...). Received: labels={labels!r}")
    if not isinstance(labels, Iterable):
        raise TypeError(
            '`labels` must be names, as in ("negative", "positive"). For two unnamed labels write ("0", "1"). '
            f"Received: labels={labels!r}"
        )
    if isinstance(labels, set | frozenset):
        raise TypeError(f"`labels` is a set, which has no order. Write a tuple of names. Received: labels={labels!r}")
    if isinstance(labels, Mapping):
        raise TypeError(
            "`labels` is a dict, so it is unclear which side has the names. Write a tuple of names in the order of "
            f"their ids. Received: labels={labels!r}"
        )
    whole = (int, np.integer)
    names = tuple(str(name) if isinstance(name, whole) and not isinstance(name, bool) else name for name in labels)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"`labels` must be strings or whole numbers. Convert them with str(). Received: labels={names}")
    for name in names:
        utf8(name, f", the label {name!r}")
    names = tuple(map(composed, names))
    if "" in names:
        raise ValueError(f"`labels` has an empty name. Give every label a name. Received: labels={names}")
    if len(set(names)) < max(least, len(names)):
        raise ValueError(f"`labels` must be different names, at least {least}. Correct them. Received: labels={names}")
    return names


def sorted_labels(labels: Iterable[str]) -> list[str]:
    """Names in alphabetical order, or in the order of their numbers if all are numerals.

    >>> sorted_labels(["10", "9", "10"]), sorted_labels(["b", "a", "10"])
    (['9', '10'], ['10', 'a', 'b'])
    """
    names = sorted(set(labels))
    return sorted(names, key=int) if all(map(is_numeral, names)) else names


def with_outside(labels: list[str]) -> list[str]:
    """The labels that a tagger learns: if they are of entities, first O, which words outside of entities have.

    >>> with_outside(["B-PER", "I-PER"]), with_outside(["NOUN"])
    (['O', 'B-PER', 'I-PER'], ['NOUN'])
    """
    if not any(label[1:2] == "-" for label in labels):
        return labels
    return ["O", *(label for label in labels if label != "O")]


def stored_labels(head: Any, layer: str) -> tuple[str, ...]:
    """The labels of a stored head, or numbered ones if it has no names."""
    return head.labels or tuple(f"LABEL_{number}" for number in range(head.weights[f"{layer}/bias"].shape[0]))


def row_labels(rows: Rows) -> Iterator[tuple[int, str]]:
    """Each label of texts or of words, with the number of its row; of an entity (start, end, type) its two tags."""
    for row, value in enumerate(rows.y):
        for one in [value] if isinstance(value, str) else value:
            yield from [(row, one)] if isinstance(one, str) else ((row, f"{tag}-{one[2]}") for tag in "BI")


def check_several(labels: Collection[str], rows: Rows) -> None:
    """Refuse training rows that all have the same label."""
    if len(labels) == 1:
        raise ValueError(
            f"Every row of {rows.path} has the same label. Add examples of another label, or name the right column. "
            f"Received: {next(iter(labels))!r} in all rows"
        )


def check_known(labels: Iterable[tuple[int, str]], rows: Rows, known: Collection[str]) -> None:
    """Refuse a label of these rows that is not in the training file; the error names file and row."""
    for row, label in labels:
        if label not in known:
            raise ValueError(
                f"{rows.place(row)} has the label {label!r}, which is not one of the labels that were learned. Correct "
                f"it, delete the row, or train on examples of it. "
                f"The labels are {listed(list(map(repr, sorted(known))), 8)}. Received: {label!r}"
            )


def label_ids(values: Any, labels: tuple[str, ...], where: str = "") -> np.ndarray:
    """Ids [n] of a column of label names or ids. Where all labels are numerals, a number in the column is a name.

    >>> label_ids(["good", "bad"], labels=("bad", "good")).tolist()
    [1, 0]
    >>> label_ids([1, -1], labels=("-1", "0", "1")).tolist()
    [2, 0]
    """
    ids = {label: number for number, label in enumerate(labels)}
    rows = rows_of(flat(values), "label")
    return np.array([_label_id(value, ids, row, where) for row, value in enumerate(rows)], "int32")


def _label_id(value: Any, ids: dict[str, int], row: int, where: str) -> int:
    place = f"position {row} of {where}" if where else f"row {row}"
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a torch tensor, which datasets may hold
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8")
    if isinstance(value, str):
        value = composed(value)
        if value not in ids:
            raise ValueError(
                f"The label {value!r} at {place} is not one of the task's labels: {listed(list(map(repr, ids)), 8)}. "
                f"Correct it, or build the task with this label too. Received: {value!r}"
            )
        return ids[value]
    if isinstance(value, float) and value.is_integer():  # pandas makes floats of a column with gaps
        value = int(value)
    if isinstance(value, list | tuple | set):
        raise TypeError(
            f"The label at {place} is a list, but the task gives each text one label. Pass one name, and for a row of "
            "0 and 1 its argmax (on the command line, leave out --separator); or build the task with multi_label=True. "
            f"Received: {value!r}"
        )
    if is_missing(value):
        raise TypeError(
            f"The label at {place} is missing. Fill it in, or leave out the row. A classifier with `abstain_below` "
            f"gives some texts no label. Received: {value!r}"
        )
    if not isinstance(value, bool | int | np.integer | np.bool_):
        raise TypeError(
            f"The label at {place} is neither a name nor a whole number. Write a name or an id from 0 to "
            f"{len(ids) - 1}, or use a TextRegressor for numbers. Received: {value!r}"
        )
    value = int(value)
    name, names = str(value), list(ids)
    if all(map(is_numeral, names)):
        return _label_id(name, ids, row, where)
    if 0 <= value < len(ids):
        if ids.get(name, value) != value:
            raise ValueError(
                f"The label at {place} could be the label {name!r} or the one with the id {name}, {names[value]!r}. "
                f"Pass strings, as y.astype(str) makes them. Received: {value}"
            )
        return value
    if name in ids:
        return ids[name]
    if value == -100:
        raise ValueError(
            f"The label at {place} is -100, by which other packages mark pieces that are not learned. Leave its row "
            f"out, or in a tagger, give each word one label, not each piece. Received: {value}"
        )
    raise ValueError(
        f"The label at {place} is not a known id. Use an id from 0 to {len(ids) - 1}, or a name. Received: {value}"
    )


def is_numeral(name: str) -> bool:
    """Whether a label is a whole number, which may be negative."""
    return name.removeprefix("-").isdecimal()


def warn_of_missing(labels: Sequence[str], targets: np.ndarray) -> None:
    """Log the labels that no row has. targets: ids [n], or 0 and 1 of each label [n, C]."""
    counts = targets.sum(0) if targets.ndim == 2 else np.bincount(targets, minlength=len(labels))
    if missing := [repr(label) for label, count in zip(labels, counts, strict=True) if not count]:
        logger.warning("These labels are in no training row, so no row teaches them: %s", listed(missing, 8))


def several_labels(y: Any, labels: tuple[str, ...]) -> np.ndarray:
    """0 and 1 of each label, float32 [n, C]."""
    if getattr(y, "ndim", 1) == 2:
        matrix = np.asarray(y)
        other = matrix[~np.isin(matrix, (0, 1))].tolist()
        if matrix.shape[1] != len(labels) or other:
            raise ValueError(
                f"y is a matrix that does not have 0 or 1 for each of the {len(labels)} labels. Correct it, or pass "
                f"lists of labels. Received: shape {matrix.shape}{f', with {other[0]!r}' if other else ''}"
            )
        return matrix.astype("float32")
    rows = rows_of(y, "label")
    if rows and all(_is_matrix_row(row, len(labels)) for row in rows):
        return np.array(rows, "float32")
    found = np.zeros((len(rows), len(labels)), "float32")
    for number, row in enumerate(rows):
        if isinstance(row, str) or not hasattr(row, "__iter__"):
            raise TypeError(
                f"Row {number} has no list of labels, which a task with multi_label needs. Pass a list of labels, or "
                f"an empty list if the row has none. Received: {row!r}"
            )
        found[number, label_ids(list(row), labels, where=f"row {number}")] = 1
    return found


def _is_matrix_row(row: Any, count: int) -> bool:
    """Whether a list is a row of a matrix of 0 and 1, as datasets and tf.data have them, and not a list of ids."""
    if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != count:
        return False
    return all(not isinstance(value, str | bytes) and value in (0, 1) for value in row)
