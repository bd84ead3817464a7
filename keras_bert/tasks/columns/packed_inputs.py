"""Inputs that are ids already, which go to Keras as they are."""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_bert.inputs import INPUTS, OTHER_NAMES
from keras_bert.tasks.columns.tables import is_table
from keras_bert.tasks.columns.tf_datasets import example_of, is_dataset


def is_packed(x: Any) -> bool:
    """Whether these are ids already: inputs of the encoder, or something that yields batches of them to Keras."""
    if isinstance(x, tuple) and x:
        x = x[0]
    if isinstance(x, Mapping):
        return not is_table(x)
    if isinstance(x, keras.utils.PyDataset) or hasattr(x, "__next__"):
        return True
    return is_dataset(x) and isinstance(example_of(x.element_spec)[0], dict)


def packed_batches(x: Any) -> Any:
    """What is given to Keras in place of x: a dict with arrays in place of lists.

    An error if its arrays are not of one length, if the first batch of a PyDataset or a generator has texts, or if a
    tf.data has other columns.
    """
    if isinstance(x, dict):
        arrays = {name: np.asarray(ids) if isinstance(ids, list) else ids for name, ids in x.items()}
        rows = {name: len(ids) for name, ids in arrays.items()}
        if len(set(rows.values())) > 1 or not all(rows.values()):
            raise ValueError(
                "Each input of packed ids must have the same rows, and at least one. Pack the texts again with "
                f"task.bert.preprocessor. Received: {', '.join(f'{name} of {count}' for name, count in rows.items())}"
            )
        return arrays
    given = type(x).__name__
    if isinstance(x, keras.utils.PyDataset):
        batch = x[0] if x.num_batches != 0 else None
    elif hasattr(x, "__next__"):  # Keras accepts a generator, but no other iterator
        read = list(itertools.islice(x, 1))
        batch, x = read[0] if read else None, (one for one in itertools.chain(read, x))
    else:
        if is_dataset(x) and not {*INPUTS, *OTHER_NAMES} & set(columns := example_of(x.element_spec)[0]):
            wrong, mapped = "it must yield (x, y)", 'row: (row["text"], row["label"])'
            if isinstance(x.element_spec, tuple):  # (a dict of columns, y)
                wrong, mapped = "the x of its (x, y) must be a text or a tuple of texts", 'row, y: (row["text"], y)'
            raise TypeError(
                f"A tf.data yields a dict of columns, but {wrong}. Use dataset.map, such as "
                f"dataset.map(lambda {mapped}). "
                f"Received: a tf.data of dicts with {', '.join(map(str, columns))}"
            )
        return x
    for value in keras.tree.flatten(batch[0] if isinstance(batch, tuple) else batch):
        dtype = getattr(value, "dtype", None)
        if isinstance(value, str | bytes) or dtype == "string" or getattr(dtype, "kind", None) in ("U", "S", "O"):
            raise TypeError(
                "A PyDataset or a generator yields texts, but it must yield packed ids. Pass the texts as a list or a "
                f"tf.data, or yield dicts that `task.bert.preprocessor` returns. Received: {given}"
            )
    return x


def steps_of(x: Any, batch_size: int, validation_split: float) -> int:
    """The steps in an epoch of packed inputs."""
    if isinstance(x, dict):
        return -(-math.floor(len(next(iter(x.values()))) * (1 - validation_split)) // batch_size)
    steps = int(x.cardinality()) if hasattr(x, "cardinality") else getattr(x, "num_batches", None)
    if steps is None or steps < 0:
        raise ValueError(
            "x does not say how many batches it has, but the learning rate of the recipe depends on their number. Pass "
            "steps_per_epoch, or call compile() with an optimizer of your own before fit(). "
            f"Received: x={type(x).__name__}"
        )
    return steps


def check_target_ids(y: Any, below: int, shape: tuple[int, ...]) -> None:
    """Refuse targets of packed ids that are not whole numbers from 0 to below - 1, or not of this shape."""
    try:
        ids = np.asarray(y)
    except ValueError:  # rows of several lengths
        ids = np.asarray([])
    wrong = ids[~((ids >= 0) & (ids < below) & (ids == np.floor(ids)))] if ids.dtype.kind in "iuf" else ids.ravel()
    if not ids.size or wrong.size:
        raise ValueError(
            f"The targets of packed ids must be an array of whole numbers from 0 to {below - 1}. For padding, write 0, "
            f"and pass 0 as its sample_weight. Received: {wrong.tolist()[0] if wrong.size else type(y).__name__!r}"
        )
    if ids.shape not in (shape, (*shape, 1)):
        raise ValueError(
            f"The targets of these packed ids must have the shape {list(shape)}. Correct them, or pass texts. "
            f"Received: shape {list(ids.shape)}"
        )
