"""How much each label weighs in the loss: by a dict, or so that all labels weigh the same in total."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from keras_bert.tasks.columns.value_columns import LARGEST
from keras_bert.tasks.rows.labels import label_ids
from keras_bert.text_encoding import composed
from keras_bert.wording import listed

BALANCED = "balanced"


def class_weights(
    class_weight: Any, labels: tuple[str, ...], targets: Any = None, times: np.ndarray | None = None
) -> np.ndarray:
    """The weight of each label [C], from a dict by name or id; labels that it does not name weigh 1.

    "balanced" gives all labels that occur in `targets`, ids [n], the same total, and the mean weight is 1.

    times: how often each of the targets counts, [n].

    >>> class_weights("balanced", ("bad", "good"), np.array([0, 0, 1])).tolist()
    [0.75, 1.5]
    """
    if _is_balanced(class_weight, targets):
        counts = np.bincount(targets, times, minlength=len(labels))
        return (counts.sum() / np.count_nonzero(counts) / np.maximum(counts, 1)).astype("float32")
    return weights_by_name(class_weight, labels)


def label_weights(
    class_weight: Any, labels: tuple[str, ...], targets: Any = None, times: np.ndarray | None = None
) -> np.ndarray:
    """The same where a text can have several labels: how much more it weighs that a label holds than that it does not.

    "balanced" gives the texts with a label in `targets`, 0 and 1 [n, C], the same total as those without it.

    >>> label_weights("balanced", ("bad", "good"), np.array([[1, 1], [0, 1], [0, 0]])).tolist()
    [2.0, 0.5]
    """
    if _is_balanced(class_weight, targets):
        times = np.ones(len(targets)) if times is None else times
        count = times @ targets
        without = times.sum() - count
        # A label that all texts have, or none, cannot be balanced: with a weight of 0 it would not be learned at all.
        return np.where((count > 0) & (without > 0), without / np.maximum(count, 1), 1.0).astype("float32")
    return weights_by_name(class_weight, labels)


def _is_balanced(class_weight: Any, targets: Any) -> bool:
    balanced = isinstance(class_weight, str) and class_weight == BALANCED
    if balanced and targets is None:
        raise ValueError(
            "class_weight='balanced' needs the labels of all rows. Pass y, or the weight of each label. Received: no y"
        )
    return balanced


def weights_by_name(class_weight: Any, labels: Sequence[str]) -> np.ndarray:
    """The weight of each label [C] in a dict, 1 for the others; an error for an unknown label, or if none counts."""
    found = np.ones(len(labels), "float32")
    if class_weight is None:
        return found
    if not isinstance(class_weight, dict):
        raise TypeError(
            f"class_weight must be a dict or 'balanced'. Write it as in {{{labels[0]!r}: 2.0}}. Received: "
            f"class_weight={class_weight!r}"
        )
    if unknown := [name for name in class_weight if isinstance(name, str) and composed(name) not in labels]:
        raise ValueError(
            f"class_weight names the label {unknown[0]!r}, which the task does not have. Use one of "
            f"{listed(list(map(repr, labels)), 8)}. Received: class_weight={class_weight!r}"
        )
    for name, weight in class_weight.items():
        if not isinstance(weight, Real) or not 0 <= float(weight) <= LARGEST:  # refuses NaN too
            raise ValueError(
                f"The weight of {name!r} in class_weight must be finite, and not below 0. Correct it; to leave a label "
                f"out, give it 0. Received: {weight!r}"
            )
    found[label_ids(list(class_weight), tuple(labels))] = list(class_weight.values())
    if not found.any():
        raise ValueError(
            "class_weight is 0 for every label, so nothing would be learned. Give at least one label a weight above 0. "
            f"Received: class_weight={class_weight!r}"
        )
    return found
