"""The losses of tasks whose recipe smooths the labels or weighs them."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


class _OfLogits(keras.losses.Loss):
    """A loss with a value for each target, and a mean over everything that has a weight."""

    def __init__(self, *, label_smoothing: float, reduction: str = "mean_with_sample_weight", **kwargs: Any) -> None:
        super().__init__(reduction=reduction, **kwargs)
        self.label_smoothing = label_smoothing

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"label_smoothing": self.label_smoothing}


@keras.saving.register_keras_serializable("keras_bert")
class SmoothedCrossentropy(_OfLogits):
    """The cross entropy of ids, of which the share `label_smoothing` is spread over all labels (Szegedy et al. 2016).

    >>> import numpy as np
    >>> loss = SmoothedCrossentropy(label_smoothing=0.1)
    >>> round(float(loss(np.array([1]), np.array([[0.0, 2.0]]))), 4)
    0.2269
    """

    def call(self, y_true: Any, y_pred: Any) -> Any:
        if len(y_true.shape) == len(y_pred.shape):
            y_true = ops.squeeze(y_true, -1)
        one_hot = ops.one_hot(ops.cast(y_true, "int32"), y_pred.shape[-1])  # [..., C]
        return keras.losses.categorical_crossentropy(
            one_hot, y_pred, from_logits=True, label_smoothing=self.label_smoothing
        )


@keras.saving.register_keras_serializable("keras_bert")
class WeighedBinaryCrossentropy(_OfLogits):
    """The mean over labels [B, C] of their binary cross entropies, in which a label that holds has a weight.

    Args:
        label_weights: of each label, as torch's `pos_weight`.
        label_smoothing: how far the targets 0 and 1 are moved towards one half.
    """

    def __init__(self, label_weights: Sequence[float], *, label_smoothing: float = 0.0, **kwargs: Any) -> None:
        super().__init__(label_smoothing=label_smoothing, **kwargs)
        self.label_weights = list(label_weights)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        y = y_true * (1 - self.label_smoothing) + 0.5 * self.label_smoothing
        holds = y * ops.softplus(-y_pred) * ops.convert_to_tensor(self.label_weights, y_pred.dtype)
        return ops.mean(holds + (1 - y) * ops.softplus(y_pred), axis=-1)  # [B]

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"label_weights": self.label_weights}
