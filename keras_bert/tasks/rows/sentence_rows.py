"""SentenceRows: rows of one to three texts, each a row of the model's input."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.tasks.columns.text_columns import flat, is_missing, rows_of
from keras_bert.tasks.columns.value_columns import number_column
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from keras_bert.text.tensors import tf


@dataclass(frozen=True)
class SentenceRows(LabelledRows):
    """Rows whose texts are encoded one by one, so that a batch of B rows of C texts is packed as [B * C, S].

    form: "pairs" of a query and its positive, perhaps with a negative, whose targets number the positives; two texts
    with "scores"; texts with "labels", whose targets number the labels; or "", where there is nothing to learn.
    decoding: the columns of texts.
    """

    form: str = ""

    @property
    def is_own_match(self) -> bool:
        """Whether the second text of each row is the first one again."""
        return len(self.decoding) == 2 and self.decoding[0] is self.decoding[1]

    def warn_of_cuts(self, rows: str = "rows", limit: str = "the preprocessor's seq_length") -> None:
        super().warn_of_cuts("texts, each counted twice," if self.is_own_match else rows, limit)

    def text_inputs(self, index: Any, width: int | str) -> dict[str, Any]:
        x = self.pack(index, width)
        return {name: tf.reshape(value, (-1, tf.shape(value)[-1])) for name, value in x.items()}  # [B * C, S]

    def batch_to_split(self, index: Any, width: int) -> tuple[Any, Any, Any]:
        """Inputs [B, C, S]. A filler has weight -1, since texts are compared with those of a row of weight 0 too."""
        x, targets, weights = self.batch(index, width)
        x = {name: tf.reshape(value, (-1, self.rows_per_example, width)) for name, value in x.items()}  # [B, C, S]
        return x, targets, weights - tf.cast(index < 0, tf.float32)


def make_targets(form: str, columns: list[list[str]], y: Any) -> np.ndarray:
    """The targets of rows of this form, [n]."""
    if form == "scores":
        return number_column(y, "score")
    if form == "pairs":
        return numbered(columns[1])
    labels = rows_of(flat(y), "label")
    if (row := next((row for row, label in enumerate(labels) if is_missing(label)), None)) is not None:
        raise ValueError(f"Row {row} has no label. Fill it in, or drop the row. Received: {labels[row]!r}")
    return numbered(labels)


def numbered(values: Iterable[Hashable]) -> np.ndarray:
    """A number for each value, from 0 in the order of their first occurrence.

    >>> numbered("abca").tolist()
    [0, 1, 2, 0]
    """
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], "int32")
