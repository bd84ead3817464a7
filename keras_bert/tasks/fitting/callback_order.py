"""The callbacks of a training in the order in which they depend on each other."""

import logging
import math
from collections.abc import Sequence
from typing import Any

import keras

from keras_bert.compat import compiled_metrics
from keras_bert.tasks.fitting.validation import Validation
from keras_bert.tasks.metrics.scores import LOWER_IS_BETTER, Scores
from keras_bert.training.averaged_weights import AveragedWeights

logger = logging.getLogger("keras_bert")


def in_order(callbacks: Any) -> list[Any]:
    """Averages of weights first, then what computes scores, then what may monitor them."""
    first, second = (AveragedWeights, keras.callbacks.SwapEMAWeights), (Scores, Validation)
    given: list[Any] = keras.tree.flatten(callbacks) if callbacks else []
    for one in given:
        if isinstance(one, type) or not hasattr(one, "set_model"):
            raise TypeError(
                "A callback must be an object of keras.callbacks.Callback. Pass one, such as "
                f"EarlyStopping('val_loss'). Received: {one!r}"
            )
    averages = [one for one in given if isinstance(one, first)] or [AveragedWeights()]
    scores = [one for one in given if isinstance(one, second)]
    others = [one for one in given if not isinstance(one, (*first, *second))]
    return [*averages, *scores, ScoreModes(others), *others, StopIfDiverged()]


class ScoreModes(keras.callbacks.Callback):
    """Sets the mode of callbacks that monitor a score, such as EarlyStopping("val_f1"), unless they have one.

    Keras finds the mode only of compiled metrics. `fit` puts this after the callbacks that add scores to the logs and
    before all others, so that it knows the scores.
    """

    def __init__(self, callbacks: Sequence[keras.callbacks.Callback]) -> None:
        super().__init__()
        self.callbacks = callbacks

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        metrics = {getattr(metric, "name", metric) for metric in compiled_metrics(self.model)} | {"loss"}
        for callback in self.callbacks:
            monitor = getattr(callback, "monitor", "")
            name = monitor.removeprefix("val_")
            is_score = monitor in (logs or {}) and name not in metrics
            if is_score and getattr(callback, "mode", None) == "auto":
                callback.mode = "min" if name in LOWER_IS_BETTER else "max"


class StopIfDiverged(keras.callbacks.Callback):
    """Like `keras.callbacks.TerminateOnNaN`, but at the end of an epoch.

    In float16, Keras skips steps that are not finite, and the weights stay good.
    """

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        loss = (logs or {}).get("loss", 0.0)
        scaled = isinstance(self.model.optimizer, keras.optimizers.LossScaleOptimizer)
        if not math.isfinite(loss) and not scaled:
            logger.warning(
                "The loss of epoch %d is %s, so the weights are damaged, and training stops. Load the model again, and "
                "train it with a lower learning rate.", epoch + 1, loss
            )  # fmt: skip
            self.model.stop_training = True
