"""F1 and Matthews correlation as Keras metrics, exact over batches, from counts of true and predicted labels."""

from typing import Any

import keras
from keras import ops

from keras_bert.compat import highest_is_best


@highest_is_best
class _Confusion(keras.metrics.Metric):
    def __init__(self, labels: int, name: str, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.labels = labels
        # Whole numbers in float32 are exact up to 16 million examples.
        self.counts = self.add_variable((labels, labels), "zeros", name="counts")  # [true, predicted]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Count ids [B] against logits [B, C]."""
        true = ops.one_hot(ops.reshape(ops.cast(y_true, "int32"), (-1,)), self.labels, dtype=self.dtype)  # [B, C]
        predicted = ops.one_hot(ops.argmax(y_pred, -1), self.labels, dtype=self.dtype)  # [B, C]
        if sample_weight is not None:
            true = true * ops.reshape(ops.cast(sample_weight, self.dtype), (-1, 1))
        self.counts.assign_add(ops.matmul(ops.transpose(true), predicted))  # [C, C]

    def get_config(self) -> dict[str, Any]:
        return {"labels": self.labels, "name": self.name, "dtype": self.dtype}


@keras.saving.register_keras_serializable("keras_bert")
class F1(_Confusion):
    """F1 of the second of two labels, or else the mean over all labels, from label ids and logits.

    >>> metric = F1(labels=2)
    >>> metric.update_state([0, 1, 1], [[2.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> round(float(metric.result()), 3)
    0.667
    """

    def __init__(self, labels: int, name: str = "f1", dtype: Any = None) -> None:
        super().__init__(labels, name, dtype)

    def result(self) -> Any:
        both = ops.sum(self.counts, 0) + ops.sum(self.counts, 1)  # [C]
        f1 = ops.divide_no_nan(2 * ops.diagonal(self.counts), both)  # [C]
        return f1[1] if self.labels == 2 else ops.mean(f1)


@keras.saving.register_keras_serializable("keras_bert")
class Matthews(_Confusion):
    """Matthews correlation for any number of labels (Gorodkin 2004), from label ids and logits.

    >>> metric = Matthews(labels=2)
    >>> metric.update_state([0, 1, 1], [[2.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> float(metric.result())
    0.5
    """

    def __init__(self, labels: int, name: str = "matthews", dtype: Any = None) -> None:
        super().__init__(labels, name, dtype)

    def result(self) -> Any:
        total = ops.sum(self.counts)
        share = ops.divide_no_nan(self.counts, total)  # [C, C]; shares, whose products do not overflow
        true, predicted = ops.sum(share, 1), ops.sum(share, 0)  # [C]
        covariance = ops.sum(ops.diagonal(share)) - ops.sum(true * predicted)
        spread = (1 - ops.sum(true**2)) * (1 - ops.sum(predicted**2))
        return ops.divide_no_nan(covariance, ops.sqrt(ops.maximum(spread, 0.0)))  # shares may add up to 1.0000001
