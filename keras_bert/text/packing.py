"""Packing: several segments become one row, [CLS] a [SEP] b [SEP] and padding, with BERT's mask and segment ids.

This uses only core TensorFlow ops, so that exported graphs run anywhere: TF Serving up to 2.19 lacks `RoundRobinTrim`.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from keras_bert.checks import check_choice
from keras_bert.text.numpy_examples import InvalidArgumentError
from keras_bert.text.tensors import tf

TRUNCATIONS = ("longest_first", "only_first", "only_second", "waterfall")
HEAD = 4  # with head_tail, one piece in so many is from the beginning


@dataclass(frozen=True)
class Packer:
    """Packs ragged segments of ids. `max_length` limits the rows where seq_length is "longest".

    head_tail: of a segment that is too long, keep the first quarter and the last three quarters of what fits, as in
    "How to Fine-Tune BERT for Text Classification" (Sun et al. 2019: 128 and 382 pieces of 510).

    >>> import tensorflow as tf
    >>> packer = Packer(start=2, end=3, pad=0)
    >>> first, second = tf.ragged.constant([[11, 12, 13, 14]]), tf.ragged.constant([[21, 22]])
    >>> packed = packer.pack([first, second], seq_length=8)
    >>> packed["input_word_ids"].numpy().tolist(), packed["input_type_ids"].numpy().tolist()
    ([[2, 11, 12, 13, 3, 21, 22, 3]], [[0, 0, 0, 0, 0, 1, 1, 1]])
    >>> packer.cut([first, second], seq_length=8).numpy().tolist()
    [[True, False]]
    """

    start: int
    end: int
    pad: int
    truncation: str = "longest_first"
    max_length: int = 512
    head_tail: bool = False

    def __post_init__(self) -> None:
        check_choice("truncation", self.truncation, TRUNCATIONS)
        check_seq_length(self.max_length, segments=1, name="max_length")

    def pack(
        self, segments: Sequence["tf.RaggedTensor"], seq_length: "int | str | tf.Tensor"
    ) -> dict[str, "tf.Tensor"]:
        """The rows as int32 [B, S]. S is `seq_length`, or the longest row's length rounded up to a multiple of 8."""
        return self.pack_and_cut(segments, seq_length)[0]

    def cut(self, segments: Sequence["tf.RaggedTensor"], seq_length: "int | str | tf.Tensor") -> "tf.Tensor":
        """Which segments lose pieces in `pack`, bool [B, K] for K segments."""
        lengths, kept = self._lengths(segments, seq_length)
        return kept < lengths

    def pack_and_cut(
        self, segments: Sequence["tf.RaggedTensor"], seq_length: "int | str | tf.Tensor"
    ) -> tuple[dict[str, "tf.Tensor"], "tf.Tensor"]:
        """What `pack` and `cut` return."""
        lengths, kept = self._lengths(segments, seq_length)  # [B, K]
        starts = 1 + tf.cumsum(kept + 1, axis=1, exclusive=True)  # [B, K]
        total = starts[:, -1] + kept[:, -1] + 1  # [B]
        if isinstance(seq_length, str):
            longest = tf.reduce_max(tf.concat([total, [len(segments) + 1]], axis=0))
            width = tf.minimum((longest + 7) // 8 * 8, self.max_length)
        else:
            width = tf.convert_to_tensor(seq_length)
        column = tf.range(width)[tf.newaxis]  # [1, S]
        real = column < total[:, tf.newaxis]  # [B, S]
        # Whatever no segment fills is [SEP], except the first column and the padding.
        ids = tf.where(column == 0, self.start, tf.where(real, self.end, self.pad))  # [B, S]
        types = tf.zeros_like(ids)
        for k, rows in enumerate(segments):
            ids = place(rows, kept[:, k], starts[:, k], onto=ids, head_tail=self.head_tail)
            if k:  # a [SEP] belongs to the segment before it, so a segment begins with its first piece
                types += tf.cast(real & (column >= starts[:, k, tf.newaxis]), tf.int32)
        packed = {"input_word_ids": ids, "input_mask": tf.cast(real, tf.int32), "input_type_ids": types}
        if not isinstance(seq_length, str) and not tf.is_tensor(seq_length):
            packed = {name: tf.ensure_shape(value, (None, seq_length)) for name, value in packed.items()}
        return packed, kept < lengths

    def keeps(self, place: "tf.Tensor", kept: "tf.Tensor", length: "tf.Tensor") -> "tf.Tensor":
        """Whether the piece at this place of a segment of this length is among the `kept` ones."""
        if not self.head_tail:
            return place < kept
        first = (kept + HEAD - 1) // HEAD
        return (place < first) | (place >= length - (kept - first))

    def _lengths(
        self, segments: Sequence["tf.RaggedTensor"], seq_length: "int | str | tf.Tensor"
    ) -> tuple["tf.Tensor", "tf.Tensor"]:
        if tf.is_tensor(seq_length):  # an argument of an exported graph
            limit = _checked_tensor(seq_length, len(segments))
        else:
            limit = check_seq_length(self.max_length if seq_length == "longest" else seq_length, len(segments))
        lengths = tf.stack([tf.cast(rows.row_lengths(), tf.int32) for rows in segments], axis=1)  # [B, K]
        return lengths, kept_lengths(lengths, limit - len(segments) - 1, self.truncation)


def kept_lengths(lengths: "tf.Tensor", room: int, truncation: str) -> "tf.Tensor":
    """How many pieces of each segment fit in `room`: [B, K] -> [B, K].

    "longest_first" removes pieces from the longest segment until all fit, as google-research/bert does. This is
    like handing out the room one piece at a time in turn. "waterfall" fills the room from the first segment on.
    """
    count = lengths.shape[1]
    if truncation == "longest_first" and count > 1:
        ascending = tf.sort(lengths, axis=1)
        before = tf.cumsum(ascending, axis=1, exclusive=True)
        # If the j shortest segments are kept whole, each other one may have level_j pieces. The highest level counts.
        level = tf.reduce_max((room - before) // tf.range(count, 0, -1), axis=1, keepdims=True)  # [B, 1]
        level = tf.maximum(level, 0)
        kept = tf.minimum(lengths, level)
        left = room - tf.reduce_sum(kept, axis=1, keepdims=True)  # [B, 1]
        longer = tf.cast(lengths > level, tf.int32)
        return kept + tf.where(tf.cumsum(longer, axis=1, exclusive=True) < left, longer, 0)
    if truncation == "waterfall" or count == 1:
        return tf.clip_by_value(room - tf.cumsum(lengths, axis=1, exclusive=True), 0, lengths)
    index = ("only_first", "only_second").index(truncation)
    others = tf.reduce_sum(lengths, axis=1) - lengths[:, index]  # [B]
    longest = tf.reduce_max(tf.concat([others, [0]], axis=0))
    rule = (
        f"truncation={truncation!r} shortens only one text, and the others do not fit into {room} pieces. Raise "
        'seq_length, or use truncation="longest_first". Received:'
    )
    found = tf.get_static_value(longest)  # None while a graph is made
    if found is None:
        with tf.control_dependencies([tf.debugging.Assert(longest <= room, [rule, longest])]):
            others = tf.identity(others)
    elif found > room:
        raise InvalidArgumentError(f"{rule} {found} pieces")
    one = tf.clip_by_value(room - others, 0, lengths[:, index])
    return tf.concat([lengths[:, :index], one[:, tf.newaxis], lengths[:, index + 1 :]], axis=1)


def place(
    rows: "tf.RaggedTensor", kept: "tf.Tensor", start: "tf.Tensor", onto: "tf.Tensor", *, head_tail: bool = False
) -> "tf.Tensor":
    """Write `kept` values of each row into a dense [B, S], from column `start` on: the first, or as in `Packer`."""
    column = tf.range(tf.shape(onto)[1])[tf.newaxis] - start[:, tf.newaxis]  # [B, S]
    inside = (column >= 0) & (column < kept[:, tf.newaxis])
    # The extra value at the end is gathered where there is nothing to write.
    values = tf.concat([tf.cast(rows.values, onto.dtype), tf.zeros([1], onto.dtype)], axis=0)
    source = column + tf.cast(rows.row_starts(), tf.int32)[:, tf.newaxis]
    if head_tail:
        skipped = tf.cast(rows.row_lengths(), tf.int32) - kept  # [B]
        tail = column >= ((kept + HEAD - 1) // HEAD)[:, tf.newaxis]  # [B, S]
        source += tf.where(tail, skipped[:, tf.newaxis], 0)
    return tf.where(inside, tf.gather(values, tf.where(inside, source, tf.size(values) - 1)), onto)


def check_seq_length(seq_length: int | str, segments: int, name: str = "seq_length") -> int:
    """The length, or an error if it is not a number or has no room for [CLS] and a [SEP] after each segment."""
    if isinstance(seq_length, bool | str) or not hasattr(seq_length, "__index__"):
        other = ' or "longest"' if name == "seq_length" and str(seq_length) != "longest" else ""
        raise ValueError(f"`{name}` must be a whole number{other}. Received: {name}={seq_length!r}")
    if seq_length < segments + 1:
        raise ValueError(
            f"`{name}` must be at least {segments + 1}, for [CLS] and a [SEP] after each text. "
            f"Received: {name}={seq_length}"
        )
    return operator.index(seq_length)


def _checked_tensor(seq_length: "tf.Tensor", segments: int) -> "tf.Tensor":
    rule = f"`seq_length` must be at least {segments + 1}, for [CLS] and a [SEP] after each text."
    fits = tf.debugging.assert_greater_equal(seq_length, segments + 1, rule)
    with tf.control_dependencies([] if fits is None else [fits]):
        return tf.identity(seq_length)
