"""CachedTask: a task whose training can compute a batch in parts, so that a large one fits into little memory."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert.checks import count_of
from keras_bert.tasks.distillation import cached_student
from keras_bert.tasks.task import Task


class CachedTask(Task):
    """The part of a `Task` that computes the rows of a batch in parts, see `tasks.fitting.gradient_cache`."""

    cache_batch: int | None = None  # the rows that are computed at a time; None: all rows of a batch

    def parts(self, x: dict[str, Any]) -> tuple[Any, dict[str, Any], Callable[[Any], Any]]:
        """The encoder, the rows [R, S] that it reads for a batch, and the logits [B, ...] of its vectors [R, H]."""
        return self, x, lambda vectors: vectors

    def fit(
        self, x: Any = None, y: Any = None, *arguments: Any, cache_batch: int | None = None, **options: Any
    ) -> keras.callbacks.History:
        """As that of other tasks.

        Args:
            cache_batch: compute this many texts or windows at a time, and all of them twice, so that a large batch fits
                into little memory (GradCache). The gradients are those of the whole batch. One device of TensorFlow
                only.
        """
        if cache_batch is not None:
            cache_batch = count_of("cache_batch", cache_batch, 1)
            self._check_cached(cache_batch, options.get("teacher"))
        if cache_batch != self.cache_batch and self.compiled:
            self.train_function = None  # it was traced with the other step
        self.cache_batch = cache_batch
        return super().fit(x, y, *arguments, **options)

    def _check_cached(self, cache_batch: int, teacher: Any) -> None:
        if keras.backend.backend() != "tensorflow":
            raise ValueError(
                "cache_batch needs the TensorFlow backend. Leave it out, or set KERAS_BACKEND=tensorflow. "
                f"Received: backend {keras.backend.backend()!r}"
            )
        if self.is_distributed:
            raise ValueError(
                f"`cache_batch` was passed to `fit`, but it works only on one device, and this {type(self).__name__} "
                "was built in a strategy for several. Leave it out, or build the task outside of the strategy. "
                f"Received: cache_batch={cache_batch}"
            )
        if teacher is not None:
            raise cached_student(cache_batch)

    def train_step(self, *arguments: Any) -> Any:
        if self.cache_batch is None:
            return super().train_step(*arguments)
        from keras_bert.tasks.fitting.gradient_cache import cached_gradients

        x, y, weight = keras.utils.unpack_x_y_sample_weight(*arguments)
        logits, loss, gradients = cached_gradients(
            self,
            *self.parts(x),
            size=self.cache_batch,
            loss_of=lambda logits: self.compute_loss(x, y, logits, weight, training=True),
        )
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=ops.shape(x["input_mask"])[0])
        return self.compute_metrics(x, y, logits, sample_weight=weight)
