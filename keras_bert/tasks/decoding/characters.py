"""The characters that an entity or an answer takes from its text."""

from typing import Any

import numpy as np

from keras_bert.text.character_sets import MARKS_AND_JOINERS, CharacterSet
from keras_bert.text.row_ids import row_ids
from keras_bert.text.tensors import tf, uses_tensorflow


def cut_out(
    texts: "tf.Tensor", row: "tf.Tensor", start: "tf.Tensor", end: "tf.Tensor"
) -> tuple["tf.Tensor", "tf.Tensor"]:
    """The parts `texts[row][start:end]`, and their ends, moved past the marks that belong to the last character.

    No piece holds such marks and joiners: accents that were stripped, variation selectors of emoji. A zero-width space
    separates words and stays outside. Memory grows with the characters of the texts and the parts, not their product.

    texts: string [B], whose invalid UTF-8 is left out. row, start, end: int32 [E].

    >>> import tensorflow as tf
    >>> parts, ends = cut_out(tf.constant(["Jose\u0301 ran"]), *map(tf.constant, ([0], [0], [4])))
    >>> len(parts[0].numpy().decode()), ends.numpy().tolist()
    (5, [5])
    """
    if not uses_tensorflow():
        return _cut_out(texts, row, start, end)
    characters = tf.strings.unicode_split(texts, "UTF-8", errors="ignore")  # [B, (characters)]
    flat, splits = characters.values, tf.cast(characters.row_splits, tf.int32)
    is_mark = tf.strings.regex_full_match(flat, f"[{MARKS_AND_JOINERS}]") & (flat != "\u200b")
    others = tf.cast(tf.where(~is_mark)[:, 0], tf.int32)  # places of all that is no mark
    first, behind = tf.gather(splits, row), tf.gather(splits, row + 1)
    next_other = tf.searchsorted(others, first + end)
    last = tf.gather(tf.concat([others, splits[-1:]], 0), next_other)
    last = tf.minimum(last, behind)
    places = tf.ragged.range(first + start, last)  # [E, (characters)]
    part = row_ids(places.row_lengths())
    parts = tf.strings.unsorted_segment_join(tf.gather(flat, places.values), part, tf.size(start))
    return parts, last - first


def _cut_out(texts: Any, row: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same in Python, without TensorFlow."""
    marks, characters = CharacterSet(MARKS_AND_JOINERS), [text.decode("utf-8", "ignore") for text in texts]
    parts, ends = np.empty(len(row), object), np.empty(len(row), "int32")
    for number, (text, first, last) in enumerate(zip((characters[one] for one in row), start, end, strict=True)):
        while last < len(text) and text[last] in marks and text[last] != "\u200b":
            last += 1
        parts[number], ends[number] = text[first:last].encode(), last
    return parts, ends
