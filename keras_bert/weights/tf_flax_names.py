"""The weights of transformers' TensorFlow and Flax classes, under the names and in the shapes of its torch classes."""

import re
from collections.abc import Mapping
from functools import partial

import numpy as np

from keras_bert.weights.tables import Stored

BLOCK = "/layer_._0/"  # in the names of TensorFlow's variables, and in no other package's
_WEIGHTS = {  # the last part of a name, and torch's
    "kernel": "weight",
    "gamma": "weight",
    "scale": "weight",
    "embedding": "weight",
    "embeddings": "weight",
    "beta": "bias",
}
# What torch's names begin with; in TensorFlow's the names of the model and of its layers come before it.
_BEGINNING = re.compile(r"(?:.*/)?(embeddings|encoder|pooler|predictions|seq_relationship|classifier|qa_outputs)/(?=.)")


def as_torch(stored: Mapping[str, Stored]) -> dict[str, Stored]:
    """The arrays by torch's names.

    >>> x = Stored.of(np.zeros((8, 3)))
    >>> found = as_torch({"tf_bert/bert/encoder/layer_._0/output/dense/kernel:0": x, "cls.predictions.bias": x})
    >>> [(name, entry.shape) for name, entry in found.items()]
    [('encoder.layer.0.output.dense.weight', (3, 8)), ('cls.predictions.bias', (8, 3))]
    """
    return dict(_one(name.removesuffix(":0"), entry) for name, entry in stored.items())


def _one(name: str, entry: Stored) -> tuple[str, Stored]:
    if match := _BEGINNING.match(name):
        head = "cls/" if match[1] in ("predictions", "seq_relationship") else ""
        name = head + name[match.start(1) :].replace("_._", "/")
    layer, _, last = name.replace("/", ".").rpartition(".")
    if last == "kernel":
        entry = _transposed(layer, entry)
    elif last == "bias" and len(entry.shape) == 2:  # [A, D] of queries, keys and values
        entry = _reshaped(entry, (-1,))
    return f"{layer}.{_WEIGHTS.get(last, last)}", entry


def _transposed(layer: str, entry: Stored) -> Stored:
    """Torch's [out, in] of a kernel [in, out], [H, A, D] (query, key, value) or [A, D, H] (attention's output)."""
    if len(entry.shape) == 3:
        entry = _reshaped(entry, (-1, entry.shape[-1]) if layer.endswith("output.dense") else (entry.shape[0], -1))
    return Stored(entry.shape[::-1], lambda: entry.read().T)


def _reshaped(entry: Stored, shape: tuple[int, ...]) -> Stored:
    known = int(np.prod([size for size in shape if size > 0]))
    found = tuple(size if size > 0 else int(np.prod(entry.shape)) // max(known, 1) for size in shape)
    return Stored(found, partial(_read_as, entry, found))


def _read_as(entry: Stored, shape: tuple[int, ...]) -> np.ndarray:
    return entry.read().reshape(shape)
