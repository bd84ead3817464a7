"""Targets: what a task learns, as numbers that its loss accepts; errors name the row."""

from typing import Any

import keras
import numpy as np

from keras_bert.wording import first_line


def checked_targets(task: Any, y: Any, *, own_loss: bool) -> np.ndarray:
    """The targets as an array that the loss accepts, as far as their type and their shape show it."""
    check_returned(task, "target_ids", y, "y as an array of numbers")
    try:
        targets = np.asarray(y)
    except ValueError:  # lists that differ in length
        targets = np.empty(0, object)
    if targets.dtype.kind not in "biuf":
        raise TypeError(
            f"y is not an array of numbers. Pass numbers, or write {type(task).__name__}.target_ids, which turns y "
            f"into numbers. Received: y[0]={next(iter(y))!r}"
        )
    finite = np.isfinite(targets.reshape(len(targets), -1)).all(axis=1) if len(targets) else np.ones(0, bool)
    if not finite.all():
        row = int(finite.argmin())
        raise ValueError(
            f"y is not a finite number at row {row}, counted from 0. Correct it, or drop the row. "
            f"Received: {targets[row]}"
        )
    shape = task.output_shape[1:] if isinstance(task.output_shape, tuple) else (None,)
    if not len(targets) or None in shape or (task.compiled and task.recipe is None):  # the user's own loss
        return targets
    if own_loss:
        _check_loss(task, targets, shape)
    elif (
        targets.shape[1:] not in (shape[:-1], (*shape[:-1], 1))
        or (targets != targets.astype("int64")).any()
        or not 0 <= targets.min() <= targets.max() < shape[-1]
    ):
        raise ValueError(
            f"y does not have one label id from 0 to {shape[-1] - 1} for each row, but the default loss needs that. "
            f"For other targets, write {type(task).__name__}.default_loss. Received: y of shape {targets.shape} with "
            f"values from {targets.min()} to {targets.max()}"
        )
    return targets


def check_returned(task: Any, method: str, value: Any, what: str) -> None:
    """Refuse None from a method of a user's task, such as one that lacks its `return`."""
    if value is None:
        raise TypeError(
            f"{type(task).__name__}.{method} returned None, but it must return {what}. Add the return statement. "
            "Received: None"
        )


def _check_loss(task: Any, targets: np.ndarray, shape: tuple[int, ...]) -> None:
    """Compute the loss of two rows, which shows whether targets and logits fit together."""
    y, loss = targets[:2], task.default_loss()
    check_returned(task, "default_loss", loss, "a loss")
    try:
        keras.losses.get(loss)(y, np.zeros((len(y), *shape), "float32"))
    except Exception as error:
        raise ValueError(
            f"{type(task).__name__}.default_loss does not accept y with these logits. Correct the shape of y or "
            f"the loss. Received: y of shape {targets.shape}, logits of shape {(len(targets), *shape)}: "
            f"{first_line(error)}"
        ) from error
