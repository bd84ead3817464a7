import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text.packing import TRUNCATIONS, Packer, kept_lengths
from tests.parity.google_packing import pack_pair, round_robin, truncate_pair

CLS, SEP, PAD = 101, 102, 7
PACKER = Packer(start=CLS, end=SEP, pad=PAD)
NAMES = ("input_word_ids", "input_mask", "input_type_ids")


def ragged(rows):
    return tf.RaggedTensor.from_row_lengths(
        np.array([x for row in rows for x in row], np.int32), np.array([len(row) for row in rows], np.int64)
    )


def random_rows(rng, count, longest):
    return [rng.integers(200, 999, rng.integers(0, longest + 1)).tolist() for _ in range(count)]


@pytest.mark.parametrize("seq_length", [3, 4, 5, 8, 16, 31])
def test_pairs_equal_google(seq_length):
    rng = np.random.default_rng(seq_length)
    a, b = random_rows(rng, 200, 20), random_rows(rng, 200, 20)
    packed = PACKER.pack([ragged(a), ragged(b)], seq_length)
    for row in range(200):
        expected = pack_pair(a[row], b[row], seq_length, CLS, SEP, PAD)
        assert tuple(packed[name][row].numpy().tolist() for name in NAMES) == expected
    assert {value.dtype for value in packed.values()} == {tf.int32}


def test_longest_first_is_round_robin_and_googles_loop():
    lengths = [(a, b) for a in range(9) for b in range(9)]
    for room in range(18):
        kept = kept_lengths(tf.constant(lengths, tf.int32), room, "longest_first").numpy().tolist()
        assert kept == [round_robin(pair, room) for pair in lengths]
        for (a, b), result in zip(lengths, kept, strict=True):
            left, right = [0] * a, [0] * b
            truncate_pair(left, right, room)
            assert result == [len(left), len(right)]


def test_four_segments_get_their_room_in_turn():
    lengths = np.random.default_rng(0).integers(0, 12, (300, 4))
    for room in (0, 1, 5, 17, 60):
        kept = kept_lengths(tf.constant(lengths, tf.int32), room, "longest_first").numpy().tolist()
        assert kept == [round_robin(row, room) for row in lengths.tolist()]


@pytest.mark.parametrize(
    ("truncation", "expected"),
    [("only_first", [1, 4]), ("only_second", [4, 1]), ("waterfall", [4, 1]), ("longest_first", [3, 2])],
)
def test_other_truncations(truncation, expected):
    assert kept_lengths(tf.constant([[4, 4]]), 5, truncation).numpy().tolist() == [expected]
    assert kept_lengths(tf.constant([[1, 2]]), 5, truncation).numpy().tolist() == [[1, 2]]
    assert kept_lengths(tf.constant([[9]]), 5, truncation).numpy().tolist() == [[5]]


def test_only_first_does_not_truncate_the_second():
    packer = Packer(CLS, SEP, PAD, truncation="only_first")
    rows = [ragged([[1]]), ragged([[1, 2, 3, 4]])]
    with pytest.raises(ValueError, match=r"the others do not fit into 3 pieces.*Received: 4 pieces$"):
        packer.pack(rows, 6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the others do not fit into 3 pieces"):
        tf.function(lambda a, b: packer.pack([a, b], 6))(*rows)


def test_three_segments():
    packed = PACKER.pack([ragged([[1, 2]]), ragged([[]]), ragged([[3]])], 9)
    assert packed["input_word_ids"].numpy().tolist() == [[CLS, 1, 2, SEP, SEP, 3, SEP, PAD, PAD]]
    assert packed["input_type_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 2, 2, 0, 0]]
    assert packed["input_mask"].numpy().tolist() == [[1, 1, 1, 1, 1, 1, 1, 0, 0]]


@pytest.mark.parametrize(("longest", "width"), [(0, 8), (6, 8), (7, 16), (14, 16), (15, 20), (400, 20)])
def test_longest_is_a_multiple_of_eight_up_to_the_maximum(longest, width):
    packer = Packer(CLS, SEP, PAD, max_length=20)
    rows = ragged([[5] * longest, [6]])
    assert packer.pack([rows], "longest")["input_mask"].shape == (2, width)
    assert packer.cut([rows], "longest").numpy().tolist() == [[longest > 18], [False]]


def test_cut_returns_which_texts_lose_pieces():
    a, b = ragged([[1] * 9, [1], [1]]), ragged([[1] * 9, [1] * 9, [1]])
    assert PACKER.cut([a, b], 8).numpy().tolist() == [[True, True], [False, True], [False, False]]


@pytest.mark.parametrize("truncation", TRUNCATIONS)
@pytest.mark.parametrize("seq_length", [8, "longest"])
def test_graphs_with_unknown_and_empty_batches(truncation, seq_length):
    packer = Packer(CLS, SEP, PAD, truncation=truncation)
    rows = tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64)
    pack = tf.function(lambda a, b: packer.pack([a, b], seq_length), input_signature=[rows, rows])
    assert pack(ragged([]), ragged([]))["input_word_ids"].shape == (0, 8)
    a, b = ragged([[1, 2], []]), ragged([[3], []])
    eager = packer.pack([a, b], seq_length)
    for name, value in pack(a, b).items():
        np.testing.assert_array_equal(value, eager[name])
    static = pack.get_concrete_function().structured_outputs["input_mask"].shape
    assert static.as_list() == [None, 8 if seq_length == 8 else None]


def test_only_core_ops():
    rows = tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64)
    pack = tf.function(lambda a, b: PACKER.pack([a, b], 16), input_signature=[rows, rows])
    kinds = {node.op for node in pack.get_concrete_function().graph.as_graph_def().node}
    assert not [kind for kind in kinds if ">" in kind], "an op of an op library"


@pytest.mark.parametrize(
    ("seq_length", "message"),
    [(2, "be at least 3"), (-1, "be at least 3"), ("shortest", 'or "longest"'), (8.0, 'or "longest"'), (True, "whole")],
)
def test_bad_lengths(seq_length, message):
    with pytest.raises(ValueError, match=message):
        PACKER.pack([ragged([[1]]), ragged([[1]])], seq_length)


def test_unknown_truncation():
    with pytest.raises(ValueError, match=r"must be one of .* Received: truncation='middle'"):
        Packer(CLS, SEP, PAD, truncation="middle")
