"""The weights of transformers' TensorFlow and Flax classes, under the names and in the shapes of its torch classes."""

import re
from collections.abc import Iterable
from functools import partial
from math import prod

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
    if last == "kernel" and len(entry.shape) > 1:
        *most, end = entry.shape
        start, *rest = entry.shape
        # Of queries, keys and values [H, A, D], of attention's output [A, D, H]; of other layers [in, out].
        shape = (prod(most), end) if layer.endswith("output.dense") else (start, prod(rest))
        entry = Stored(shape[::-1], partial(_transposed, entry, shape))
    elif last == "bias" and len(entry.shape) == 2:  # of queries, keys and values [A, D]
        entry = Stored((prod(entry.shape),), partial(_flat, entry))
    return f"{layer}.{_WEIGHTS.get(last, last)}" if layer else name, entry


def _transposed(entry: Stored, shape: tuple[int, int]) -> np.ndarray:
    return entry.read().reshape(shape).T


def _flat(entry: Stored) -> np.ndarray:
    return entry.read().reshape(-1)


def tensorflow_classes(names: Iterable[str]) -> list[str]:
    """The classes in the names of TensorFlow's variables; before 2021 no config.json named them.

    >>> tensorflow_classes(["classifier/tf_bert_for_sequence_classification_1/classifier/kernel:0"])
    ['BertForSequenceClassification']
    """
    found = {match[1] for name in names if (match := re.search(r"(?:^|/)tf_(bert_for_[a-z_]+?)(?:_\d+)?/", name))}
    return ["".join(word.capitalize() for word in name.split("_")) for name in sorted(found)]
