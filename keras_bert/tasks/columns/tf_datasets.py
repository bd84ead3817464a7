"""A tf.data of texts, which is read to its end."""

from typing import Any

import numpy as np


def is_dataset(x: Any) -> bool:
    """Whether this is a tf.data; TensorFlow is not imported for that."""
    return hasattr(x, "element_spec") and hasattr(x, "as_numpy_iterator")


def columns_of(x: Any, y: Any = None, weights: Any = None, *, ranks: tuple[int, ...] = (0,)) -> tuple[Any, Any, Any]:
    """The columns x, y and weight, also of a tf.data of them, which is read to its end.

    ranks: the ranks that the tensor of one text (or of its words) can have there. Other elements are batches.
    """
    if not is_dataset(x):
        return x, y, weights
    if int(x.cardinality()) == -1:  # tf.data.INFINITE_CARDINALITY
        raise ValueError(
            "The tf.data of text never ends, but all of it is tokenized before training begins. Use x.take(n). "
            "Received: an infinite tf.data"
        )
    if y is not None or weights is not None:
        raise ValueError(
            "y or sample_weight was passed with a tf.data, which must yield (x, y, weight) itself. Put them in the "
            "tf.data. Received: a tf.data and y or sample_weight"
        )
    first = example_of(x.element_spec)[0]
    spec = first[0] if isinstance(first, tuple) else first
    if spec.shape.rank not in ranks:
        x = x.unbatch()
    rows = [example_of(row) for row in x.as_numpy_iterator()]
    if not rows:
        raise ValueError("The tf.data is empty. Pass at least one example. Received: an empty tf.data")
    # A batch of texts looks like a list of words, except that texts have spaces.
    words = (word for row in rows for word in row[0]) if spec.shape.rank == 1 and 1 in ranks else ()
    if text := next((word for word in words if len(word.split()) > 1), None):
        raise ValueError(
            "An element of the tf.data is a batch of texts, but a tagger reads a list of strings as the words of "
            f"one text. Pass texts unbatched. Received: {text.decode('utf-8', 'replace')!r}"
        )
    found = [list(column) for column in zip(*rows, strict=True)]
    if isinstance(first, tuple):
        found[0] = tuple(list(column) for column in zip(*found[0], strict=True))  # type: ignore[call-overload]
    x, y, weights = [*found, None, None][:3]
    return x, y and [_plain(value) for value in y], weights


def _plain(value: Any) -> Any:
    """The value of a tensor of a tf.data in Python's own types."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.decode("utf-8") if isinstance(value, bytes) else value


def example_of(element: Any) -> tuple[Any, ...]:
    """(x,), (x, y) or (x, y, weight); an element of tf.data that is a tuple begins with x, as in Keras."""
    return element if isinstance(element, tuple) else (element,)
