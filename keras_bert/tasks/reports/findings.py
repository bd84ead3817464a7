"""Findings: what a task shows of labelled rows in a report, and what it shows if it does not say."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.jsonl import plain
from keras_bert.tasks.columns.text_columns import rows_of
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from keras_bert.tasks.rows.targets import check_returned

CHUNK = 1024  # rows whose loss is computed at a time


@dataclass(frozen=True)
class Mark:
    """A marked part of a text, `text[start:end]`, with its name, and whether it is right."""

    start: int
    end: int
    name: str
    right: bool = True


@dataclass(frozen=True)
class Shown:
    """One row as people read it: its texts by name, each with its marks, the right answer and the task's answer."""

    texts: Sequence[tuple[str, str, Sequence[Mark]]]
    true: str
    answer: str
    confidence: float | None = None


@dataclass(frozen=True)
class Explained:
    """What the pieces of an example add to.

    example: its number. value: a function of the logits of copies of it, [K, ...], which returns a sum over all copies.
    name: what a high value speaks for.
    """

    example: int
    value: Callable[[Any], Any]
    name: str = "this answer"


def weighted(example: int, weights: Any) -> Explained:
    """The sum of the logits of an example, weighted."""
    return Explained(example, lambda logits: ops.sum(logits * ops.convert_to_tensor(weights, "float32")))


def compared(
    example: int, high: Sequence[tuple[int, ...]], low: Sequence[tuple[int, ...]], name: str = "this answer"
) -> Explained:
    """The sum of some logits of an example, less that of others, by their places in the example."""

    def value(logits: Any) -> Any:
        logits = ops.moveaxis(logits, 0, -1)  # [..., K]
        return ops.sum(sum(logits[place] for place in high) - sum(logits[place] for place in low))

    return Explained(example, value, name)


@dataclass(frozen=True)
class Findings:
    """What a report shows of rows beside their scores.

    columns: the texts of the rows by name, whose lengths are compared, and which are searched for near-duplicates.
    measure, values: a number for each row [n], and what their mean is, such as "accuracy". It is shown by length.
    worst, badness: the title of the list of the worst rows, and how bad each is [n]; 0 if nothing is wrong with it.
    show: what is shown of the row with this number.
    explain: what explains the answer to the row with this number, if anything does.
    parts: charts and tables by name, as the functions of `parts.py` return them.
    """

    columns: dict[str, list[str]]
    show: Callable[[int], Shown]
    measure: str = ""
    values: np.ndarray | None = None
    worst: str = "Mistakes"
    badness: np.ndarray | None = None
    explain: Callable[[int], Explained | None] | None = None
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)


def columns_by_name(x: Any, names: Sequence[str]) -> dict[str, list[str]]:
    """The columns of texts in `x` by these names; a list of words is joined.

    >>> columns_by_name((["a", "b"], [["c", "d"], ["e"]]), ("prompt", "choices"))
    {'prompt': ['a', 'b'], 'choices': ['c d', 'e']}
    """
    columns = x if isinstance(x, tuple) else (x,)
    if len(columns) != len(names):
        names = [f"text {number}" for number in range(1, len(columns) + 1)]
    return {name: [_as_text(value) for value in rows_of(one, name)] for name, one in zip(names, columns, strict=True)}


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return " ".join(map(_as_text, value)) if isinstance(value, list | tuple) else str(value)


def texts_of(columns: dict[str, list[str]], row: int) -> list[tuple[str, str, tuple[()]]]:
    """The texts of a row by name, without marks."""
    return [(name, texts[row], ()) for name, texts in columns.items()]


def plain_findings(task: Any, x: Any, y: Any, examples: LabelledRows, logits: list[np.ndarray]) -> Findings:
    """The findings of a task of which only the loss is known: the rows whose loss is the highest."""
    columns, true = columns_by_name(x, task.table[0]), rows_of(y, "label")
    answers = task.decoded(examples, logits, len(true))

    def show(row: int) -> Shown:
        answer = json.dumps(plain(task.as_json(answers[row])), ensure_ascii=False, default=str)
        return Shown(texts_of(columns, row), str(true[row]), answer)

    # Otherwise a row has several examples, or each of its pieces has a target.
    of_rows = len(logits) == len(true) and isinstance(examples.targets, np.ndarray)
    losses = _losses(task, examples.targets, logits) if of_rows else None
    measure = "" if losses is None else "mean loss"
    return Findings(columns, show, measure, losses, "Rows with the highest loss", losses)


def _losses(task: Any, targets: np.ndarray, logits: list[np.ndarray]) -> np.ndarray | None:
    """The loss of each row [n]; None if a user's loss is a function that returns one number for the batch."""
    loss = task.default_loss()
    check_returned(task, "default_loss", loss, "a loss")
    stacked, loss = task.stack_logits(logits), keras.losses.get(loss)
    found = []
    for start in range(0, len(stacked), CHUNK):
        y_true, y_pred = (ops.convert_to_tensor(one[start : start + CHUNK]) for one in (targets, stacked))
        if isinstance(loss, keras.losses.Loss):
            of_batch = loss.call(y_true, y_pred)
        else:  # Keras casts the targets for a function
            of_batch = loss(ops.cast(y_true, y_pred.dtype), y_pred)
        losses = ops.convert_to_numpy(of_batch)
        if not losses.ndim:
            return None
        found.append(losses.reshape(len(losses), -1).mean(axis=1))
    return np.concatenate(found)
