"""Student: the part of a task that learns from a teacher in `fit`."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_bert import kernels
from keras_bert.compat import set_untracked
from keras_bert.layers.dense import blank_weights
from keras_bert.layers.states import recorded_states
from keras_bert.named_weights import Weight, named_weights
from keras_bert.tasks.distillation import Distillation
from keras_bert.tasks.teacher import check_teacher, state_losses
from keras_bert.tasks.text_predictor import TextPredictor

Lesson = tuple[Any, Distillation]  # a teacher, and what is learned from it


class Student(TextPredictor):
    """The part of a `Task` that learns from a teacher: a trained task of the same class.

    The teacher reads each packed batch in the training step itself, without dropout, so both read the same pieces. To
    compute its answers once in advance would not do: the hidden states of all rows do not fit into memory.
    """

    taught_fields: tuple[str, ...] = ("labels",)  # attributes in which a teacher and its student must be equal
    _lesson: Lesson | None = None  # while `fit` runs

    # === Making a student ===

    def with_layers(self, count: int) -> Any:
        """A new task with only so many blocks of the encoder, and otherwise the same weights; see `Bert.resize`.

        >>> import keras_bert
        >>> bert = keras_bert.Bert(keras_bert.BertConfig.from_size("tiny", vocab_size=6))
        >>> keras_bert.TextRegressor(bert).with_layers(1).bert.config.num_hidden_layers
        1
        """
        bert = self.bert.resize(num_hidden_layers=count)
        config = self.get_config() | {"bert": keras.saving.serialize_keras_object(bert)}
        with blank_weights():
            task = type(self).from_config(config)
        weights = named_weights(bert)
        for name, weight in named_weights(task.bert).items():
            weight.variable.assign(weights[name].read())
        task.copy_head(self)
        return task

    def copy_head(self, teacher: Any) -> None:
        """Put the weights of a teacher's head into this task's."""
        ours, theirs = _head_weights(self), _head_weights(teacher)
        mine, other = ([tuple(weight.variable.shape) for weight in weights] for weights in (ours, theirs))
        if mine != other:
            raise ValueError(
                "The student's head has other weights than its teacher's, so it cannot start from them. Use the "
                "settings of the teacher, such as its `pool`, or give the student weights to start from (--model). "
                f"Received: shapes {other} of the teacher, {mine} of the student"
            )
        for weight, taken in zip(ours, theirs, strict=True):
            weight.variable.assign(taken.read())

    # === Training ===

    def lesson(self, teacher: Any, distillation: Distillation | None = None) -> Lesson | None:
        """What `fit` is to learn from a teacher, or None without one; an error if it cannot."""
        if teacher is None:
            if distillation is not None:
                raise ValueError(
                    "`distillation` was passed to `fit` without `teacher`. Pass both, or leave `distillation` out. "
                    f"Received: distillation={distillation}"
                )
            return None
        distillation = distillation or Distillation()
        check_teacher(teacher, self, distillation)
        return teacher, distillation

    @contextlib.contextmanager
    def taught(self, lesson: Lesson | None) -> Iterator[None]:
        """A block in which training steps also learn from a teacher. The teacher is not saved with the task."""
        if lesson is None:
            yield
            return
        set_untracked(self, "_lesson", lesson)
        self.train_function = None  # it may have been traced without the teacher
        try:
            yield
        finally:
            set_untracked(self, "_lesson", None)
            self.train_function = None

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs: Any) -> Any:
        """The logits; in a step with a teacher also the states of the encoder, for `compute_loss`."""
        if not training or self._lesson is None:
            return super().call(inputs, training=training, mask=mask, **kwargs)
        with recorded_states() as states:
            logits = super().call(inputs, training=training, mask=mask, **kwargs)
        return {"logits": logits, "states": states}

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """As Keras's; in a step with a teacher the sum that `Distillation` describes."""
        if not isinstance(y_pred, dict) or self._lesson is None:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        teacher, weights = self._lesson
        own = super().compute_loss(x, y, y_pred["logits"], sample_weight, training)
        with recorded_states() as states, kernels.without_gradient():
            logits = teacher(x, training=False)
        logits, states = keras.tree.map_structure(ops.stop_gradient, (logits, states))
        total = weights.targets * ops.cast(own, "float32")
        if weights.logits:
            values = self.soft_loss(logits, y_pred["logits"], weights.temperature)
            total += weights.logits * _weighted_mean(values, sample_weight)
        return total + state_losses(weights, teacher, states, self, y_pred["states"])

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """As Keras's, of the logits."""
        logits = y_pred["logits"] if isinstance(y_pred, dict) else y_pred
        return super().compute_metrics(x, y, logits, sample_weight)

    @property
    def non_trainable_variables(self) -> list[Any]:
        """With those of a teacher: JAX would compile all other variables that a step reads into it, as constants."""
        own = super().non_trainable_variables
        return own if self._lesson is None else [*own, *self._lesson[0].variables]


def _weighted_mean(values: Any, weight: Any) -> Any:
    """The mean of values [B, ...] by the weights of targets, each of which may have several values."""
    if weight is None:
        return ops.mean(values)
    weight = ops.cast(weight, "float32")
    values = ops.mean(ops.reshape(values, (*ops.shape(weight), -1)), axis=-1)
    total = ops.sum(weight)
    return ops.sum(values * weight) / ops.where(total > 0, total, 1.0)


def _head_weights(task: Any) -> list[Weight]:
    """The weights outside of the encoder, in their order: some layers get a new name each time."""
    of_encoder = named_weights(task.bert)
    return [weight for name, weight in named_weights(task).items() if name not in of_encoder]
