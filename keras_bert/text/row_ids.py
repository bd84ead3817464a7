"""The row of each value from the lengths of the rows, in memory that is linear in the values."""

from typing import Any

from keras_bert.text.tensors import tf


def row_ids(lengths: Any) -> "tf.Tensor":
    """The row that each value belongs to, int32, where rows of these lengths follow one another.

    `tf.repeat` and `RaggedTensor.value_rowids` return the same, but build a table of [rows, longest row] for it.

    >>> row_ids([2, 0, 3]).numpy().tolist()
    [0, 0, 2, 2, 2]
    """
    ends = tf.cumsum(tf.cast(lengths, tf.int32))  # [rows]
    total = tf.reduce_max(tf.concat([[0], ends], 0))
    ended = tf.math.unsorted_segment_sum(
        tf.ones_like(ends), ends, total + 1
    )  # [values + 1], the rows that end before each value
    return tf.cumsum(ended)[:-1]  # [values]
