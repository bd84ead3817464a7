"""A question answerer's answers in the graph: the best span over all windows, as `tasks.answer_spans` finds it."""

from typing import TYPE_CHECKING, Any

from keras_bert.exports.encoder_export import serve
from keras_bert.exports.turns import in_turns
from keras_bert.tasks.decoding.answer_spans import BEST
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.text.offsets import all_behind_marks

if TYPE_CHECKING:
    import tensorflow as tf

MAX_ANSWER_LENGTH = 30  # pieces


def answer(task: QuestionAnswerer, logits: Any, seq_length: int) -> dict[str, Any]:
    """The signature: `text`, `start`, `end`, `score`; without an answer the text is empty, and start and end are -1.

    `truncated`: the question was cut. A context never is: it is read in as many windows as it takes.
    """
    import tensorflow as tf

    room = min(task.max_question_length, seq_length // 2)  # pieces of a question

    def answer(question: tf.Tensor, context: tf.Tensor) -> dict[str, tf.Tensor]:
        windows = task.bert.preprocessor.windows(
            question,
            context,
            seq_length=seq_length,
            stride=max(1, seq_length // 3) if task.stride is None else task.stride,
            max_question_length=room,
        )
        rows = {name: windows[name] for name in task.bert.input}
        found = in_turns(logits, rows, (2, None))  # [W, 2, S]
        example, count = windows["example"], tf.shape(question)[0]
        spans = _spans(windows, found)  # scores, starts and ends, each [W, M]

        def of_questions(values: tf.Tensor, empty: Any) -> tf.Tensor:
            ragged = tf.RaggedTensor.from_value_rowids(values, example, count, validate=False)
            return tf.reshape(ragged.to_tensor(empty), [count, -1])  # [B, windows * M]

        empty = (-float("inf"), -1, -1)
        scores, start, end = _best_of_each(*map(of_questions, spans, empty))  # each [B, windows * M]
        scores, place = tf.math.top_k(scores, min(BEST, spans[0].shape[1]))  # [B, 20]
        start, end = (tf.gather(x, place[:, 0], batch_dims=1) for x in (start, end))  # [B]
        null = tf.math.unsorted_segment_min(found[:, 0, 0] + found[:, 1, 0], example, count)  # [B]
        best, threshold = scores[:, 0], task.null_threshold
        # Whether no answer is a candidate too.
        counts = tf.math.is_inf(best) if threshold is None else tf.fill([count], True)  # [B]
        none = counts & (null - best > (threshold or 0.0))
        everything = tf.concat([scores, tf.where(counts, null, -float("inf"))[:, tf.newaxis]], axis=1)
        chances = tf.nn.softmax(everything)
        whole = tf.strings.unicode_transcode(context, "UTF-8", "UTF-8", errors="ignore")
        start, end = tf.maximum(start, 0), all_behind_marks(whole, tf.maximum(end, 0))
        text = tf.strings.substr(whole, start, end - start, unit="UTF8_CHAR")
        return {
            "text": tf.where(none, "", text),
            "start": tf.where(none, -1, start),
            "end": tf.where(none, -1, end),
            "score": tf.where(none, chances[:, -1], chances[:, 0]),
            "truncated": task.bert.preprocessor.tokenize(question).merge_dims(1, 2).row_lengths() > room,
        }

    columns = {name: tf.TensorSpec([None], tf.string, name) for name in ("question", "context")}
    return {"serving_default": serve(answer, columns)}


def _spans(windows: dict[str, Any], logits: "tf.Tensor") -> "tuple[tf.Tensor, ...]":
    """Of the likeliest starts and ends of each window all spans: their scores and characters, each [W, M]."""
    import tensorflow as tf

    nowhere = -float("inf")
    shown = windows["start"] >= 0
    count = min(BEST, windows["start"].shape[1] or BEST)
    starts, first = tf.math.top_k(tf.where(windows["best"] & shown, logits[:, 0], nowhere), count)  # [W, 20]
    ends, last = tf.math.top_k(tf.where(shown, logits[:, 1], nowhere), count)
    length = last[:, tf.newaxis, :] - first[:, :, tf.newaxis] + 1  # [W, 20, 20]
    scores = starts[:, :, tf.newaxis] + ends[:, tf.newaxis, :]
    scores = tf.where((length >= 1) & (length <= MAX_ANSWER_LENGTH), scores, nowhere)
    start = tf.gather(windows["start"], first, batch_dims=1)[:, :, tf.newaxis]
    end = tf.gather(windows["end"], last, batch_dims=1)[:, tf.newaxis, :]
    spans = (scores, tf.broadcast_to(start, tf.shape(scores)), tf.broadcast_to(end, tf.shape(scores)))
    return tuple(tf.reshape(x, [-1, count * count]) for x in spans)


def _best_of_each(scores: "tf.Tensor", start: "tf.Tensor", end: "tf.Tensor") -> "tuple[tf.Tensor, ...]":
    """Spans in another order, where of those with the same characters the best alone has a score.

    Several pieces can stand on one character: those of a syllable of Hangul, without its accents, do.
    """
    import tensorflow as tf

    characters = tf.cast(start, tf.int64) * 2**32 + tf.cast(end, tf.int64)
    by_score = tf.argsort(scores, direction="DESCENDING", stable=True)
    order = tf.gather(by_score, tf.argsort(tf.gather(characters, by_score, batch_dims=1), stable=True), batch_dims=1)
    scores, characters, start, end = (tf.gather(x, order, batch_dims=1) for x in (scores, characters, start, end))
    again = tf.pad(characters[:, 1:] == characters[:, :-1], [[0, 0], [1, 0]])
    return tf.where(again, -float("inf"), scores), start, end
