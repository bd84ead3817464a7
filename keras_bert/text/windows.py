"""Windows: a text that is longer than the model, in overlapping parts; for questions, as in Google's run_squad."""

from typing import Any

from keras_bert.text.packing import Packer, check_seq_length, place
from keras_bert.text.row_ids import row_ids
from keras_bert.text.tensors import tf

OVERLAP = 4  # one piece in so many is in two windows of a text


def question_limit(max_question_length: int, seq_length: int) -> int:
    """The most pieces of a question, which never fills more than half of a row."""
    return min(max_question_length, seq_length // 2)


def windows(
    packer: Packer,
    question: "tf.RaggedTensor",
    context: "tf.RaggedTensor",
    start: "tf.RaggedTensor",
    end: "tf.RaggedTensor",
    *,
    seq_length: int = 384,
    stride: int = 128,
    max_question_length: int = 64,
) -> dict[str, "tf.Tensor"]:
    """Rows [CLS] question [SEP] window [SEP] for B questions: W >= B windows.

    `question`, `context`: ids [B, (pieces)]. `start`, `end`: the characters of the context where each of its pieces
    begins and ends. Besides the three inputs of the model, the result has for the W windows:

    - `example` [W]: the number of the question.
    - `start`, `end` [W, S]: the characters of each piece of the context, and -1 in all other columns.
    - `best` [W, S]: whether the piece has more context in this window than in any other window.

    >>> import tensorflow as tf
    >>> question, context = tf.ragged.constant([[7]]), tf.ragged.constant([[10, 11, 12, 13, 14]])
    >>> start, end = tf.ragged.constant([[0, 2, 4, 6, 8]]), tf.ragged.constant([[1, 3, 5, 7, 9]])
    >>> rows = windows(Packer(2, 3, 0), question, context, start, end, seq_length=7, stride=2, max_question_length=1)
    >>> rows["input_word_ids"].numpy().tolist()
    [[2, 7, 3, 10, 11, 12, 3], [2, 7, 3, 12, 13, 14, 3]]
    >>> rows["start"].numpy().tolist()[1]
    [-1, -1, -1, 4, 6, 8, -1]
    """
    check_seq_length(seq_length, segments=2)
    if min(seq_length, stride, max_question_length) < 1 or seq_length < max_question_length + 4:
        raise ValueError(
            "`seq_length` must be at least `max_question_length` + 4, for [CLS], two [SEP] and some context; "
            "`stride` and `max_question_length` must be at least 1. Change the value that is too small. Received: "
            f"seq_length={seq_length}, max_question_length={max_question_length}, stride={stride}"
        )
    question = question[:, :max_question_length]
    room = seq_length - 3 - tf.cast(question.row_lengths(), tf.int32)  # [B]
    step = tf.minimum(stride, room)  # [B]; a longer stride would skip pieces
    shown, example, source = split(context, room, step)  # [W, (pieces)], [W], a place for each piece
    size = tf.cast(shown.row_lengths(), tf.int32)  # [W]
    window = row_ids(size)  # the window of each piece

    asked = tf.gather(question, example)
    packed = packer.pack([asked, shown], seq_length)
    first_column = 2 + tf.cast(asked.row_lengths(), tf.int32)  # [W], the column where the window begins

    def dense(values: Any, empty: int) -> Any:
        values = tf.cast(values, tf.int32)
        onto = tf.fill(tf.shape(packed["input_mask"]), empty)
        return tf.ensure_shape(place(shown.with_values(values), size, first_column, onto), (None, seq_length))

    best = _has_most_context(source, window, size, tf.size(context.values))
    return packed | {
        "example": example,
        "start": dense(tf.gather(start.values, source), -1),
        "end": dense(tf.gather(end.values, source), -1),
        "best": dense(best, 0) == 1,
    }


def split(
    rows: "tf.RaggedTensor", room: "tf.Tensor", step: "tf.Tensor"
) -> tuple["tf.RaggedTensor", "tf.Tensor", "tf.Tensor"]:
    """Overlapping parts of rows of ids [B, (pieces)]: W >= B parts; an empty row has an empty one.

    room, step: for each row, int32 [B], the most pieces of a part, and how many pieces later the next part begins.
    Returns the parts [W, (pieces)], the row of each [W], and of each of their pieces its place in `rows.values`.
    """
    lengths = tf.cast(rows.row_lengths(), tf.int32)  # [B]
    count = 1 + tf.maximum(0, (lengths - room + step - 1) // step)  # [B]
    row = row_ids(count)  # [W]
    number = tf.range(tf.shape(row)[0]) - tf.gather(tf.cumsum(count, exclusive=True), row)  # [W]
    first = number * tf.gather(step, row)  # [W]
    size = tf.minimum(tf.gather(room, row), tf.gather(lengths, row) - first)  # [W]
    parts = tf.ragged.range(first, first + size)  # [W, (pieces)], counted from the first piece of the row
    start = tf.gather(tf.cast(rows.row_starts(), tf.int32), row)  # [W]
    source = parts.values + tf.gather(start, row_ids(size))
    return parts.with_values(tf.gather(rows.values, source)), row, source


def text_windows(rows: "tf.RaggedTensor", packer: Packer) -> tuple["tf.RaggedTensor", "tf.Tensor"]:
    """The windows of single texts, ids [W, (pieces)], and the text of each, [W].

    A window has as many pieces as fit into `packer.max_length`, and the last quarter of them is in the next one too.

    >>> import tensorflow as tf
    >>> windows, text = text_windows(tf.ragged.constant([[1, 2, 3, 4, 5, 6], []]), Packer(2, 3, 0, max_length=6))
    >>> windows, text.numpy()
    (<tf.RaggedTensor [[1, 2, 3, 4], [4, 5, 6], []]>, array([0, 0, 1], dtype=int32))
    """
    room = packer.max_length - 2
    if room < 1:
        raise ValueError(
            "`seq_length` must be at least 3, for a piece between [CLS] and [SEP]. Raise it. "
            f"Received: seq_length={packer.max_length}"
        )
    every = tf.ones_like(tf.cast(rows.row_lengths(), tf.int32))  # [B]
    found, text, _ = split(rows, room * every, (room - room // OVERLAP) * every)
    return found, text


def _has_most_context(source: "tf.Tensor", window: "tf.Tensor", sizes: "tf.Tensor", total: "tf.Tensor") -> "tf.Tensor":
    """For each piece of each window, whether this window has the highest score for it; in a tie, the first one.

    Google's score is the smaller number of pieces to the left or right, plus a hundredth of the window's length. It is
    float64 as there, because rounding decides some of the ties.
    """
    size = tf.gather(sizes, window)
    left = tf.range(tf.size(window)) - tf.gather(tf.cumsum(sizes, exclusive=True), window)
    score = tf.cast(tf.minimum(left, size - 1 - left), tf.float64) + 0.01 * tf.cast(size, tf.float64)
    highest = tf.gather(tf.math.unsorted_segment_max(score, source, total), source)
    earliest = tf.math.unsorted_segment_min(tf.where(score == highest, window, 2**31 - 1), source, total)
    return window == tf.gather(earliest, source)
