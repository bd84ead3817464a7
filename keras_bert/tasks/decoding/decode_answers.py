"""Answers from the logits of windows, in ops that also run in a graph: one decoder for Python and for exports."""

from functools import cache
from typing import Any

from keras_bert.tasks.decoding.characters import cut_out
from keras_bert.text.tensors import tf, uses_tensorflow

BEST = 20  # starts and ends of a window, and candidates of a question, that are considered (run_squad's n_best_size)
MAX_ANSWER_LENGTH = 30  # pieces


def decode_answers(
    windows: dict[str, "tf.Tensor"],
    logits: "tf.Tensor",
    contexts: "tf.Tensor",
    *,
    null_threshold: "tf.Tensor",
    top_k: "int | tf.Tensor" = 1,
    max_answer_length: "int | tf.Tensor" = MAX_ANSWER_LENGTH,
) -> dict[str, "tf.Tensor"]:
    """The best answers to each question, best first: `text`, `start`, `end`, `score`, each [B, top_k].

    "No answer" has the empty text, and -1 for start and end. The score is the probability among the candidates, of
    which there are `count` [B]; where that is less than `top_k`, the other scores are 0.

    windows: as `text.windows.windows` makes them. logits: [W, 2, S'], S' <= S. contexts: [B].
    null_threshold: float64; NaN where "no answer" is only for a context that has no piece.
    """
    width, count = tf.shape(logits)[2], tf.shape(contexts)[0]
    windows = {"example": windows["example"]} | {name: windows[name][:, :width] for name in ("start", "end", "best")}
    example, start, end, score = best_spans(windows, logits, max_answer_length)

    def of_questions(values: Any, empty: Any) -> Any:
        ragged = tf.RaggedTensor.from_value_rowids(values, example, count, validate=False)
        return ragged.to_tensor(empty, shape=(None, BEST))  # [B, 20]

    nowhere = tf.constant(-float("inf"), tf.float64)
    start, end = (of_questions(x, -1) for x in (start, end))
    score = of_questions(tf.cast(score, tf.float64), nowhere)
    null = tf.math.unsorted_segment_min(logits[:, 0, 0] + logits[:, 1, 0], windows["example"], count)  # [B]
    null, best = tf.cast(null, tf.float64), score[:, 0]
    nothing = tf.math.is_inf(best)  # no candidate
    nothing_wins = nothing | (null - best > null_threshold)
    counts = nothing | ~tf.math.is_nan(null_threshold)  # whether "no answer" is a candidate too
    score = tf.concat([tf.where(counts, null, nowhere)[:, tf.newaxis], score], axis=1)  # [B, 21]
    start, end = (tf.pad(x, [[0, 0], [1, 0]], constant_values=-1) for x in (start, end))
    candidates = tf.math.count_nonzero(score > nowhere, axis=1, dtype=tf.int32)  # [B]
    # The winner comes first even where the threshold beats the score.
    place = tf.range(BEST + 1)[tf.newaxis] == tf.where(nothing_wins, 0, 1)[:, tf.newaxis]
    order = tf.argsort(tf.where(place, -nowhere, score), direction="DESCENDING", stable=True)[:, :top_k]
    start, end, score = (tf.gather(x, order, batch_dims=1) for x in (start, end, tf.nn.softmax(score)))  # [B, top_k]
    shown = tf.where(start >= 0)  # [E, 2]
    text, last = cut_out(contexts, tf.cast(shown[:, 0], tf.int32), *(tf.gather_nd(x, shown) for x in (start, end)))
    return {
        "text": tf.tensor_scatter_nd_update(tf.fill(tf.shape(start), ""), shown, text),
        "start": start,
        "end": tf.tensor_scatter_nd_update(end, shown, last),
        "score": score,
        "count": tf.minimum(candidates, top_k),
    }


def best_spans(
    windows: dict[str, "tf.Tensor"], logits: "tf.Tensor", max_answer_length: "int | tf.Tensor"
) -> tuple["tf.Tensor", ...]:
    """The question, the characters and the score of the best spans, best first within a question, each [K].

    Of spans with the same characters the best one counts: several pieces may be of one character, as those of a Hangul
    syllable without its accents are. Among equal scores the span that was met first is the better one.

    windows: `example` [W], `start`, `end`, `best` [W, S]. logits: [W, 2, S].
    """
    nowhere = -float("inf")
    shown = windows["start"] >= 0
    count = tf.minimum(BEST, tf.shape(logits)[2])
    starts, first = tf.math.top_k(tf.where(windows["best"] & shown, logits[:, 0], nowhere), count)  # [W, 20]
    ends, last = tf.math.top_k(tf.where(shown, logits[:, 1], nowhere), count)
    length = last[:, tf.newaxis, :] - first[:, :, tf.newaxis] + 1  # [W, 20, 20]
    scores = starts[:, :, tf.newaxis] + ends[:, tf.newaxis, :]  # [W, 20, 20]
    possible = tf.where((scores > nowhere) & (length >= 1) & (length <= max_answer_length))  # [M, 3]
    window, i, j = tf.unstack(tf.cast(possible, tf.int32), num=3, axis=1)
    start = tf.gather_nd(windows["start"], tf.stack([window, tf.gather_nd(first, tf.stack([window, i], 1))], 1))
    end = tf.gather_nd(windows["end"], tf.stack([window, tf.gather_nd(last, tf.stack([window, j], 1))], 1))
    spans = tf.stack([tf.gather(windows["example"], window), start, end], axis=1)  # [M, 3]
    spans, number = tf.raw_ops.UniqueV2(x=spans, axis=[0])  # [U, 3], in the order in which they were met
    scores = tf.math.unsorted_segment_max(tf.gather_nd(scores, possible), number, tf.shape(spans)[0])  # [U]
    order = tf.argsort(scores, direction="DESCENDING", stable=True)
    order = tf.gather(order, tf.argsort(tf.gather(spans[:, 0], order), stable=True))
    example = tf.gather(spans[:, 0], order)
    rank = tf.range(tf.size(example)) - tf.searchsorted(example, example)
    order = tf.boolean_mask(order, rank < BEST)  # [K]
    return (*tf.unstack(tf.gather(spans, order), num=3, axis=1), tf.gather(scores, order))


def answer_decoder() -> Any:
    """`decode_answers`; where text runs in TensorFlow, as one graph."""
    return _graph() if uses_tensorflow() else decode_answers


@cache
def _graph() -> Any:
    """It is traced once for all tasks."""

    @tf.function(autograph=False)
    def decode(windows: dict[str, tf.Tensor], logits: tf.Tensor, contexts: tf.Tensor, **settings: tf.Tensor) -> Any:
        return decode_answers(windows, logits, contexts, **settings)

    positions = tf.TensorSpec([None, None], tf.int32)
    windows = {
        "example": tf.TensorSpec([None], tf.int32),
        "start": positions,
        "end": positions,
        "best": tf.TensorSpec([None, None], tf.bool),
    }
    return decode.get_concrete_function(
        windows,
        tf.TensorSpec([None, 2, None], tf.float32),
        tf.TensorSpec([None], tf.string),
        null_threshold=tf.TensorSpec([], tf.float64, "null_threshold"),
        top_k=tf.TensorSpec([], tf.int32, "top_k"),
        max_answer_length=tf.TensorSpec([], tf.int32, "max_answer_length"),
    )
