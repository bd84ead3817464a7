"""MultipleNegativesRanking: the positives of the other rows of a batch are the negatives of a row."""

from typing import Any

import keras
from keras import ops

from keras_bert.checks import check_above_zero, check_flag
from keras_bert.tasks.losses.sentence_loss import SentenceLoss, by_row, real_rows, unit
from keras_bert.tasks.rows.sentence_forms import check_ranked
from keras_bert.tasks.rows.sentence_rows import SentenceRows

HIDDEN = -1e9  # a score whose exponential is 0


@keras.saving.register_keras_serializable("keras_bert")
class MultipleNegativesRanking(SentenceLoss):
    """Cross entropy of a query's own positive among all positives and negatives of the batch (Henderson et al. 2017).

    A positive that has the same text as the query's own is no negative for it.

    Args:
        temperature: cosines are divided by it; sentence-transformers calls its inverse the scale.
        symmetric: add the same from each positive to the queries, and take the mean of both.
    """

    form = "pairs"

    def __init__(self, temperature: float = 0.05, symmetric: bool = False, **options: Any) -> None:
        super().__init__(**options)
        check_above_zero("temperature", temperature, "Use 0.05.")
        check_flag("symmetric", symmetric)
        self.temperature = temperature
        self.symmetric = symmetric

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature, "symmetric": self.symmetric}

    def check(self, rows: SentenceRows) -> None:
        _, positives, *negatives = rows.decoding
        check_ranked(positives, *negatives, place="row {}".format, drop="drop the row")

    def call(self, targets: Any, vectors: Any, real: Any = True) -> Any:
        """The loss of each query [B]; targets: the number of its positive, the same for the same text."""
        rows = unit(by_row(vectors, targets))  # [B, C, H]
        real = real_rows(real, targets)
        queries, positives = rows[:, 0], rows[:, 1]  # each [B, H]
        own = ops.sum(queries * positives, axis=-1) / self.temperature  # [B]
        scores = ops.matmul(queries, ops.transpose(positives)) / self.temperature  # [B, B]
        number = ops.arange(ops.shape(targets)[0])
        repeated = ops.equal(targets[:, None], targets) & ops.not_equal(number[:, None], number)
        scores = ops.where(~repeated & real[:, None] & real, scores, HIDDEN)
        negatives = ops.reshape(rows[:, 2:], (-1, rows.shape[-1]))  # [B * (C - 2), H]
        others = ops.matmul(queries, ops.transpose(negatives)) / self.temperature  # [B, B * (C - 2)]
        of_real = ops.broadcast_to(real[:, None], ops.shape(rows)[:2])[:, 2:]  # [B, C - 2]
        others = ops.where(ops.reshape(of_real, (-1,)), others, HIDDEN)
        loss = ops.logsumexp(ops.concatenate([scores, others], axis=1), axis=1) - own  # [B]
        if self.symmetric:
            loss = (loss + ops.logsumexp(scores, axis=0) - own) / 2
        return loss
