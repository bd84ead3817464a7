import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text.packing import Packer
from keras_bert.text.windows import windows
from tests.parity.google_packing import document_spans, has_most_context

CLS, SEP, PAD = 2, 3, 0


def ragged(rows):
    return tf.RaggedTensor.from_row_lengths(
        np.array([x for row in rows for x in row], np.int32), np.array([len(row) for row in rows], np.int64)
    )


def make(questions, contexts, **options):
    starts = [[10 * piece for piece in range(len(context))] for context in contexts]
    ends = [[10 * piece + 4 for piece in range(len(context))] for context in contexts]
    arguments = [ragged(rows) for rows in (questions, contexts, starts, ends)]
    return windows(Packer(CLS, SEP, PAD), *arguments, **options)


@pytest.mark.parametrize(("seq_length", "stride"), [(16, 3), (16, 1), (20, 7), (20, 50), (160, 37)])
def test_windows_equal_run_squad(seq_length, stride):
    rng = np.random.default_rng(seq_length + stride)
    questions = [rng.integers(100, 999, rng.integers(0, 9)).tolist() for _ in range(40)]
    contexts = [rng.integers(100, 999, rng.integers(0, 3 * seq_length)).tolist() for _ in range(40)]
    contexts[3] = []
    found = make(questions, contexts, seq_length=seq_length, stride=stride, max_question_length=6)
    found = {name: value.numpy().tolist() for name, value in found.items()}
    window = 0
    for row, (question, context) in enumerate(zip(questions, contexts, strict=True)):
        question = question[:6]
        spans = document_spans(len(context), seq_length - 3 - len(question), stride) or [(0, 0)]
        for number, (start, length) in enumerate(spans):
            pieces = range(start, start + length)
            ids = [CLS, *question, SEP, *(context[p] for p in pieces), SEP]
            padding = seq_length - len(ids)
            before, behind = [-1] * (len(question) + 2), [-1] * (1 + padding)
            assert found["example"][window] == row
            assert found["input_word_ids"][window] == ids + [PAD] * padding
            assert found["input_type_ids"][window] == [0] * len(before) + [1] * (length + 1) + [0] * padding
            assert found["start"][window] == before + [10 * p for p in pieces] + behind
            assert found["end"][window] == before + [10 * p + 4 for p in pieces] + behind
            best = [has_most_context(spans, number, p) for p in pieces]
            assert found["best"][window] == [False] * len(before) + best + [False] * len(behind)
            window += 1
    assert window == len(found["example"])


def test_each_piece_has_one_best_window():
    found = make([[5, 6]], [list(range(100, 600))], seq_length=64, stride=9, max_question_length=8)
    starts = tf.boolean_mask(found["start"], found["best"]).numpy()
    assert sorted(starts) == [10 * piece for piece in range(500)]


def test_graphs_with_unknown_and_empty_batches():
    rows = tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64)
    graph = tf.function(
        lambda *rows: windows(Packer(CLS, SEP, PAD), *rows, seq_length=12, stride=4, max_question_length=4),
        input_signature=[rows] * 4,
    )
    assert graph(*[ragged([])] * 4)["input_word_ids"].shape == (0, 12)
    question, context = ragged([[1], [1, 2]]), ragged([[5] * 30, [6]])
    eager = windows(
        Packer(CLS, SEP, PAD), question, context, context, context, seq_length=12, stride=4, max_question_length=4
    )
    for name, value in graph(question, context, context, context).items():
        np.testing.assert_array_equal(value, eager[name])


@pytest.mark.parametrize(
    "options", [{"seq_length": 66}, {"seq_length": 128, "stride": 0}, {"seq_length": 128, "max_question_length": 0}]
)
def test_bad_sizes(options):
    with pytest.raises(ValueError, match="must be at least `max_question_length`"):
        make([[1]], [[2]], **options)
