"""SentenceLoss: what the losses of sentence vectors share."""

from typing import Any

import keras
from keras import ops

from keras_bert.tasks.rows.sentence_rows import SentenceRows


class SentenceLoss(keras.losses.Loss):
    """A loss of the vectors of a batch, [B * C, H] or [B, C, H] for rows of C texts, and of their targets [B].

    On several devices, `call` has a third argument, bool [B]: which rows are real. The others only fill up the batch,
    and are not compared with.

    compares_rows: whether the loss of a row depends on the other rows of its batch; if so, `fit` refuses batches of one
        row. A loss of your own that reads each row by itself sets it to False.
    """

    form = ""  # of the rows that it learns from, see `SentenceRows`
    compares_rows = True

    def __init__(self, name: str | None = None, reduction: str = "mean_with_sample_weight", **options: Any) -> None:
        super().__init__(name=name, reduction=reduction, **options)

    def check(self, rows: SentenceRows) -> None:
        """Refuse rows from which this loss cannot learn."""


def unit(vectors: Any) -> Any:
    """The vectors at length 1, so that a product is a cosine."""
    return ops.normalize(vectors, axis=-1, epsilon=1e-12)


def real_rows(real: Any, targets: Any) -> Any:
    """Which rows are real, [B]; `real` is this, or True for all of them."""
    return ops.broadcast_to(real, ops.shape(targets)[:1])


def by_row(vectors: Any, targets: Any) -> Any:
    """The vectors of each row, [B, C, H]."""
    return ops.reshape(vectors, (ops.shape(targets)[0], -1, vectors.shape[-1]))  # [B, C, H]
