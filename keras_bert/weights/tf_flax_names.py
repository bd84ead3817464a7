"""The weights of transformers' TensorFlow and Flax classes, under the names and in the shapes of its torch classes."""

import re
from collections.abc import Iterable
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


def as_torch(name: str, entry: Stored) -> tuple[str, Stored]:
    """An array under torch's name; those of torch stay as they are, except the norms of before 2019.

    >>> x = Stored.of(np.zeros((8, 3)))
    >>> name, entry = as_torch("tf_bert/bert/encoder/layer_._0/output/dense/kernel:0", x)
    >>> name, entry.shape
    ('encoder.layer.0.output.dense.weight', (3, 8))
    """
    name = name.removesuffix(":0")
    if match := _BEGINNING.match(name):
        head = "cls/" if match[1] in ("predictions", "seq_relationship") else ""
        name = head + name[match.start(1) :].replace("_._", "/")
    layer, _, last = name.replace("/", ".").rpartition(".")
    if last == "kernel":
        entry = _transposed(layer, entry)
    elif last == "bias" and len(entry.shape) == 2:  # [A, D] of queries, keys and values
        entry = _reshaped(entry, (-1,))
    return f"{layer}.{_WEIGHTS.get(last, last)}" if layer else name, entry


def tensorflow_classes(names: Iterable[str]) -> list[str]:
    """The classes in the names of TensorFlow's variables; before 2021 no config.json named them.

    >>> tensorflow_classes(["classifier/tf_bert_for_sequence_classification_1/classifier/kernel:0"])
    ['BertForSequenceClassification']
    """
    found = {match[1] for name in names if (match := re.search(r"(?:^|/)tf_(bert_for_[a-z_]+?)(?:_\d+)?/", name))}
    return ["".join(word.capitalize() for word in name.split("_")) for name in sorted(found)]


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
