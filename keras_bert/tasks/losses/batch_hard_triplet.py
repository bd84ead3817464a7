"""BatchHardTriplet: texts of one label are closer to each other than to texts of other labels."""

from typing import Any

import keras
from keras import ops

from keras_bert.checks import check_finite
from keras_bert.tasks.losses.sentence_loss import SentenceLoss, real_rows

FAR = 1e9  # a distance beyond any


@keras.saving.register_keras_serializable("keras_bert")
class BatchHardTriplet(SentenceLoss):
    """The Euclidean distance to the farthest text of the same label, less that to the nearest of another label.

    Both are looked for in the batch (Hermans et al. 2017), so a batch should have several texts of a label.

    Args:
        margin: by how much the second must exceed the first. The default is for vectors of length 1, whose distances
            are at most 2.
    """

    form = "labels"

    def __init__(self, margin: float = 0.2, **options: Any) -> None:
        super().__init__(**options)
        self.margin = margin
        check_finite(self, "margin")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin}

    def call(self, labels: Any, vectors: Any, real: Any = True) -> Any:
        vectors = ops.reshape(vectors, (-1, vectors.shape[-1]))  # [B, H]
        lengths = ops.sum(ops.square(vectors), axis=-1)  # [B]
        squares = lengths[:, None] + lengths - 2 * ops.matmul(vectors, ops.transpose(vectors))  # [B, B]
        apart = squares > 0
        distances = ops.where(apart, ops.sqrt(ops.where(apart, squares, 1.0)), 0.0)  # sqrt has no gradient at 0
        same = ops.equal(labels[:, None], labels)  # [B, B]
        number = ops.arange(ops.shape(labels)[0])
        real = real_rows(real, labels)
        others = same & real & ops.not_equal(number[:, None], number)
        farthest = ops.max(ops.where(others, distances, 0.0), axis=1)  # [B]
        nearest = ops.min(ops.where(~same & real, distances, FAR), axis=1)  # [B]
        return ops.relu(farthest - nearest + self.margin)  # [B]
