"""Losses of pairs with scores: CosineMSE and CoSENT."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.checks import check_above_zero
from keras_bert.tasks.columns.value_columns import check_cosines, warn_of_one_score
from keras_bert.tasks.losses.sentence_loss import SentenceLoss, by_row, real_rows, unit
from keras_bert.tasks.rows.sentence_forms import OTHER_LOSS
from keras_bert.tasks.rows.sentence_rows import SentenceRows


@keras.saving.register_keras_serializable("keras_bert")
class CosineMSE(SentenceLoss):
    """The squared difference of a score and the cosine of the two vectors (Reimers and Gurevych 2019)."""

    form = "scores"
    compares_rows = False

    def check(self, rows: SentenceRows) -> None:
        check_cosines(rows.targets, other=OTHER_LOSS)
        warn_of_one_score(rows.targets)

    def call(self, scores: Any, vectors: Any, real: Any = True) -> Any:
        return ops.square(_cosines(vectors, scores) - scores)  # [B]


@keras.saving.register_keras_serializable("keras_bert")
class CoSENT(SentenceLoss):
    """A pair with a higher score gets a higher cosine than a pair with a lower one (Huang et al. 2024).

    Only the order of the scores of a batch counts, so they may be in any range, and rows have no weights.

    Args:
        temperature: differences of cosines are divided by it; sentence-transformers calls its inverse the scale.
    """

    form = "scores"

    def __init__(self, temperature: float = 0.05, **options: Any) -> None:
        super().__init__(**options)
        check_above_zero("temperature", temperature, "Use 0.05.")
        self.temperature = temperature

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature}

    def check(self, rows: SentenceRows) -> None:
        if np.ptp(rows.targets) == 0:
            raise ValueError(
                "All scores are the same, but CoSENT learns from their order. Give pairs with different scores. "
                f"Received: {rows.targets[0]} in {len(rows.targets)} rows"
            )
        if np.ptp(rows.weights):
            raise ValueError(
                "CoSENT has one loss for a batch, so rows cannot have weights. Leave sample_weight out, or use "
                'loss="cosine". Received: sample_weight'
            )

    def call(self, scores: Any, vectors: Any, real: Any = True) -> Any:
        cosines = _cosines(vectors, scores) / self.temperature  # [B]
        real = real_rows(real, scores)
        ordered = (scores[:, None] > scores) & real[:, None] & real  # [B, B]
        wrong = ops.where(ordered, cosines - cosines[:, None], -1e9)  # [B, B]
        terms = ops.concatenate([ops.zeros((1,)), ops.reshape(wrong, (-1,))])  # [1 + B * B]
        return ops.logsumexp(terms) + ops.zeros_like(scores)  # [B], the same for all


def _cosines(vectors: Any, scores: Any) -> Any:
    rows = unit(by_row(vectors, scores))  # [B, 2, H]
    return ops.sum(rows[:, 0] * rows[:, 1], axis=-1)  # [B]
