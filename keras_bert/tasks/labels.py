"""Labels by name or id, and what each weighs."""

from typing import Any

import numpy as np

from keras_bert.tasks.columns import is_missing, not_negative, rows_of
from keras_bert.wording import listed


def check_labels(labels: Any, least: int = 2) -> tuple[str, ...]:
    """The labels of a task as a tuple of names."""
    if isinstance(labels, str | bytes):
        raise TypeError(f"labels must be a tuple of names. Write ({labels!r}, ...). Received: {labels!r}")
    names = tuple(labels)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"Every label must be a string; labels in y may be ids. Received: {names}")
    if len(set(names)) < max(least, len(names)):
        raise ValueError(f"There must be at least {least} labels, no two alike. Received: {names}")
    return names


def label_ids(values: Any, labels: tuple[str, ...], where: str = "") -> np.ndarray:
    """Ids [n] of a column of label names or ids; of labels that are numerals, a number is a name.

    >>> label_ids(["good", "bad"], labels=("bad", "good")).tolist()
    [1, 0]
    >>> label_ids([1, 3], labels=("1", "2", "3")).tolist()
    [0, 2]
    """
    ids = {label: number for number, label in enumerate(labels)}
    return np.array([_label_id(value, ids, row, where) for row, value in enumerate(rows_of(values, "label"))], "int32")


def _label_id(value: Any, ids: dict[str, int], row: int, where: str) -> int:
    place = f"at row {row}" if not where else f"at word {row} of {where}"
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # a tensor of torch, as datasets may have them
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8")
    if isinstance(value, str):
        if value not in ids:
            raise ValueError(
                f"A label must be one of {listed(list(map(repr, ids)), 8)}. Correct it, or build the task with it. "
                f"Received: {value!r} {place}"
            )
        return ids[value]
    if is_missing(value) or not isinstance(value, bool | int | np.integer | np.bool_):
        raise TypeError(
            f"A label must be a name, or an id from 0 to {len(ids) - 1} as a whole number. Cast it with int(), or "
            f"use a TextRegressor for numbers. Received: {value!r} {place}"
        )
    if all(name.isdecimal() for name in ids):
        return _label_id(str(int(value)), ids, row, where)
    if not 0 <= value < len(ids):
        raise ValueError(f"A label's id must be from 0 to {len(ids) - 1}. Received: {value} {place}")
    return int(value)


def class_weights(class_weight: Any, labels: tuple[str, ...]) -> np.ndarray:
    """A weight for each label [C] out of a dict by name or id; 1 for those it does not name."""
    found = np.ones(len(labels), "float32")
    if class_weight is None:
        return found
    if not isinstance(class_weight, dict):
        raise TypeError(f"class_weight must be a dict, as in {{{labels[0]!r}: 2.0}}. Received: {class_weight!r}")
    found[label_ids(list(class_weight), labels)] = not_negative(list(class_weight.values()), "class weight")
    return found
