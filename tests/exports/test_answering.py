"""The best spans in the graph, beside those of `tasks.answer_spans`, where several pieces stand on one character."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.exports.answering import MAX_ANSWER_LENGTH, _best_of_each, _spans
from keras_bert.tasks.decoding.answer_spans import BEST, best_spans


@pytest.mark.parametrize("seed", range(5))
def test_pieces_on_one_character(seed):
    """As of 온, whose three letters an accent-stripping tokenizer may cut apart."""
    rng = np.random.default_rng(seed)
    start = np.full((3, 40), -1)
    start[:, 4:37] = np.sort(rng.integers(0, 12, (3, 33)))
    end = np.where(start >= 0, start + 1, -1)
    own = rng.random((3, 40)) < 0.7
    logits = rng.standard_normal((3, 2, 40)).astype("float32")
    expected, _ = best_spans([*zip(start, end, own, logits, strict=True)], MAX_ANSWER_LENGTH)

    windows = {"start": tf.constant(start, tf.int32), "end": tf.constant(end, tf.int32), "best": tf.constant(own)}
    spans = (tf.reshape(x, [1, -1]) for x in _spans(windows, tf.constant(logits)))  # of one question
    scores, start, end = (x.numpy()[0] for x in _best_of_each(*spans))
    best = np.argsort(-scores, kind="stable")[:BEST]
    assert [*zip(start[best], end[best], strict=True)] == [(one.start, one.end) for one in expected]
    np.testing.assert_array_equal(scores[best], np.float32([one.score for one in expected]))
