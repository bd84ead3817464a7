"""A table of reviews with a price, a year, a brand and a kind, and tasks that read these columns too."""

from collections import Counter

import keras
import numpy as np
import pytest

from keras_bert import OtherColumns, TextClassifier
from tests.parity.oracles import array, randomize
from tests.tasks.small import NO_DROPOUT, small_bert

tensorflow_only = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of the TensorFlow backend")
LABELS = ("bad", "good", "so so")
WORDS = ["the", "film", "was", "good", "bad", "lives", "in", "rome", "who", "where"]
NUMBERS, CATEGORIES = ("price", "year"), ("brand", "kind")


def table(count=24, seed=0):
    dice = np.random.default_rng(seed)
    return {
        "text": [" ".join(dice.choice(WORDS, size)) for size in dice.integers(1, 24, count)],
        "price": dice.lognormal(3, 1, count).round(2).tolist(),
        "year": dice.integers(1990, 2026, count).tolist(),
        "brand": dice.choice(["acme", "bolt", "서울"], count).tolist(),
        "kind": dice.integers(0, 4, count).tolist(),
        "label": dice.choice(LABELS, count).tolist(),
    }


def some(rows, *names):
    return {name: rows[name] for name in names or ("text", *NUMBERS, *CATEGORIES)}


TRAIN = table()
UNSEEN = table(7, seed=1) | {
    "brand": ["acme", "none", "", "bolt", "서울", "acme", "ACME"],
    "kind": [0, 9, 1, 2, 3, 3, 3],
}


def learned(**changes):
    return OtherColumns.learn(TRAIN, **({"numbers": NUMBERS, "categories": CATEGORIES} | changes))


def small(kind=TextClassifier, **options):
    bert = small_bert(seq_length=8, **NO_DROPOUT)
    own = {"labels": LABELS} if kind is TextClassifier else {}
    return randomize(kind(bert, **own, other_columns=learned(), **options), scale=0.3)


def expected_logits(task, rows, vectors):
    """The head in numpy on vectors of texts [n, H] and on the other columns, standardised and as 0 and 1."""
    parts = []
    for name in NUMBERS:
        known = np.array(TRAIN[name])
        parts.append(((np.array(rows[name]) - known.mean()) / known.std())[:, None])
    for name in CATEGORIES:
        counts = Counter(map(str, TRAIN[name]))
        known = sorted(counts, key=lambda one: (-counts[one], one))
        places = [known.index(str(one)) + 1 if str(one) in known else 0 for one in rows[name]]
        parts.append(np.eye(len(known) + 1)[places])
    layer, head = task.get_layer("other_columns"), task.get_layer(type(task).heads[0])
    columns = np.tanh(np.concatenate(parts, axis=1) @ array(layer.kernel) + array(layer.bias))
    return np.concatenate([vectors, columns], axis=1) @ array(head.kernel) + array(head.bias)


def pooled(task, texts):
    return array(task.bert(task.bert.preprocessor(texts))["pooled_output"])
