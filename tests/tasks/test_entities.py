"""Schemes of labels, against seqeval."""

import itertools

import numpy as np
import pytest
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOBES, Entities

from keras_bert.tasks.decoding.decode_entities import find_runs, scheme_of, types_of
from keras_bert.tasks.decoding.entities import Run, encode, has_entities
from keras_bert.tasks.decoding.entity_table import entity_table

BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
BIOES = ("O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("PER", "LOC")))


def decoded(sequences, labels):
    """The runs of each of these sequences of labels, as the decoder finds them."""
    label = np.array([labels.index(name) for sequence in sequences for name in sequence], "int32")
    sizes = [len(sequence) for sequence in sequences]
    row = np.repeat(np.arange(len(sequences)), sizes)
    begins, entity = (x.numpy() for x in find_runs(scheme_of(labels), label, row))
    found = [[] for _ in sequences]
    types, first = types_of(labels), np.cumsum(sizes) - sizes
    for number, start in enumerate(np.flatnonzero(begins)):
        places = np.flatnonzero(entity == number)
        assert places.tolist() == list(range(start, places[-1] + 1))
        sequence = row[start]
        run = Run(types[label[start]], start - first[sequence], places[-1] + 1 - first[sequence])
        found[sequence].append(run)
    return found


@pytest.mark.parametrize("labels", [BIO, BIOES], ids=["BIO", "BIOES"])
def test_decoding_is_conlls(labels):
    rng = np.random.default_rng(0)
    sequences = [*itertools.product(labels, repeat=3), *(rng.choice(labels, 9).tolist() for _ in range(500))]
    for sequence, found in zip(sequences, decoded(sequences, labels), strict=True):
        assert found == [Run(kind, start, end + 1) for kind, start, end in get_entities(list(sequence))], sequence


@pytest.mark.parametrize("labels", [BIO, BIOES, ("O", "I-PER", "I-LOC")], ids=["BIO", "BIOES", "IO"])
def test_encoding_is_undone(labels):
    runs = [Run("PER", 0, 1), Run("LOC", 2, 5), Run("PER", 5, 7)]
    assert decoded([encode(runs, 8, labels)], labels) == [runs]


def test_encoding_in_bioes_is_seqevals_strict_scheme():
    runs = [Run("PER", 0, 1), Run("LOC", 1, 3), Run("PER", 4, 8)]
    found = Entities([encode(runs, 9, BIOES)], IOBES).entities[0]
    assert [Run(entity.tag, entity.start, entity.end) for entity in found] == runs


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (("O", "I-PER", "B-LOC", "I-LOC"), ["I-PER", "O", "B-LOC", "I-LOC", "I-LOC"]),
        (("O", "B-PER", "I-PER", "E-PER", "B-LOC", "I-LOC", "S-LOC"), ["B-PER", "O", "B-LOC", "I-LOC", "I-LOC"]),
    ],
)
def test_encoding_keeps_to_the_labels_of_a_type(labels, found):
    assert encode([Run("PER", 0, 1), Run("LOC", 2, 5)], 5, labels) == found


def test_which_labels_tell_entities():
    assert has_entities(("O", "I-PER"))
    assert not has_entities(("O",))
    assert not has_entities(("B", "I", "O"))
    assert not has_entities(("INTJ", "ADJ", "O"))


def table_of(entities):
    """The table of 100 texts, of which one has all the entities."""
    tf = pytest.importorskip("tensorflow", reason="pip install tensorflow")
    start = 2 * tf.range(entities)
    found = {"row": tf.fill([entities], 7), "start": start, "end": start + 1, "score": tf.ones([entities])}
    found |= {name: tf.fill([entities], "a") for name in ("type", "text")}
    texts = ["a " * entities if number == 7 else "b" for number in range(100)]
    return tf.function(entity_table)(found, tf.constant(texts))


def test_entities_as_a_table():
    table = table_of(600)
    assert table["start"].shape == (100, 600)
    assert table["start"][7].numpy().tolist() == list(range(0, 1200, 2))
    assert table["count"].numpy().tolist() == [600 if number == 7 else 0 for number in range(100)]


def test_a_table_far_larger_than_its_texts_is_refused():
    with pytest.raises(Exception, match="Send long texts in requests of their own"):
        table_of(700)
