"""The windows of a single text, and the two ends that are kept of one, against loops over lists."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text.packing import Packer
from keras_bert.text.tensors import arrays
from keras_bert.text.windows import text_windows
from tests.text.test_windows import ragged

CLS, SEP, PAD = 2, 3, 0


def expected_windows(text, seq_length):
    """One window after another, until one reaches the end of the text."""
    room = seq_length - 2
    found, start = [], 0
    while True:
        found.append(text[start : start + room])
        if start + room >= len(text):
            return found
        start += room - room // 4


def texts(seq_length):
    rng = np.random.default_rng(seq_length)
    lengths = [0, 1, seq_length - 2, seq_length - 1, *rng.integers(0, 6 * seq_length, 30)]
    return [rng.integers(10, 999, length).tolist() for length in lengths]


@pytest.mark.parametrize("seq_length", [3, 4, 8, 21, 128])
def test_windows(seq_length):
    rows = texts(seq_length)
    found, number = text_windows(ragged(rows), Packer(CLS, SEP, PAD, max_length=seq_length))
    expected = [(window, row) for row, text in enumerate(rows) for window in expected_windows(text, seq_length)]
    assert list(zip(found.to_list(), number.numpy().tolist(), strict=True)) == expected
    with arrays():  # the engine without TensorFlow
        from keras_bert.text.numpy_ragged import RaggedTensor

        given = ragged(rows)
        plain = RaggedTensor(given.values.numpy(), given.row_splits.numpy())
        without, again = text_windows(plain, Packer(CLS, SEP, PAD, max_length=seq_length))
    assert (without.to_list(), again.tolist()) == (found.to_list(), number.numpy().tolist())


def test_a_window_has_room_for_a_piece():
    with pytest.raises(ValueError, match="`seq_length` must be at least 3"):
        text_windows(ragged([[5]]), Packer(CLS, SEP, PAD, max_length=2))


@pytest.mark.parametrize("seq_length", [3, 4, 6, 9, 512])
def test_head_and_tail(seq_length):
    rows, room = texts(seq_length), seq_length - 2
    head = -(-room // 4)
    packed = Packer(CLS, SEP, PAD, head_tail=True).pack([ragged(rows)], seq_length)["input_word_ids"].numpy().tolist()
    for row, found in zip(rows, packed, strict=True):
        kept = row if len(row) <= room else row[:head] + row[len(row) - (room - head) :]
        assert found == [CLS, *kept, SEP] + [PAD] * (room - len(kept))
    if seq_length == 512:
        assert (head, room - head) == (128, 382)  # Sun et al. 2019


def test_head_and_tail_of_pairs():
    """Each text of a pair that is cut keeps its own ends, as many pieces in all as otherwise."""
    pair = [ragged([list(range(10, 30))]), ragged([[50, 51, 52]])]
    packer = Packer(CLS, SEP, PAD, head_tail=True)
    found = packer.pack(pair, 14)
    assert found["input_word_ids"].numpy()[0].tolist() == [CLS, 10, 11, *range(24, 30), SEP, 50, 51, 52, SEP]
    other = Packer(CLS, SEP, PAD).pack(pair, 14)
    for name in ("input_mask", "input_type_ids"):
        np.testing.assert_array_equal(found[name], other[name])
    assert packer.cut(pair, 14).numpy().tolist() == [[True, False]]


def test_graph_of_an_unknown_batch():
    graph = tf.function(
        lambda rows: text_windows(rows, Packer(CLS, SEP, PAD, max_length=8)),
        input_signature=[tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64)],
    )
    assert graph(ragged([]))[0].shape[0] == 0
    found, number = graph(ragged([list(range(11)), []]))
    assert found.to_list() == [*expected_windows(list(range(11)), 8), []]
    assert number.numpy().tolist() == [0, 0, 1]
