"""Rows of pieces by words, with the words taken away, in both engines of text."""

import pytest
import tensorflow as tf

from keras_bert.text.numpy_ragged import RaggedTensor
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.tensors import arrays

ROWS = [[[1, 2], [], [3]], [], [[4]], [[]]]


@pytest.mark.parametrize("rows", [ROWS, [[]], [[[]]]])
def test_equals_merge_dims(rows):
    ragged = tf.ragged.constant(rows, tf.int32, ragged_rank=2)
    assert without_words(ragged).to_list() == ragged.merge_dims(1, 2).to_list()


def test_in_a_graph():
    ragged = tf.ragged.constant(ROWS, tf.int32)
    assert tf.function(without_words)(ragged).to_list() == [[1, 2, 3], [], [4], []]


def test_in_arrays():
    rows = RaggedTensor(RaggedTensor([1, 2, 3, 4], [0, 2, 2, 3, 4, 4]), [0, 3, 3, 4, 5])
    with arrays():
        assert without_words(rows).to_list() == [[1, 2, 3], [], [4], []]
