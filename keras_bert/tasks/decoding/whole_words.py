"""Words of a text that annotators keep whole, such as U.N., AT&T and Jean-Luc, although the tokenizer splits them."""

from functools import lru_cache
from typing import Any

import numpy as np

from keras_bert.text.row_ids import row_ids
from keras_bert.text.tensors import tf
from keras_bert.text.vocabulary import Vocabulary

LETTERS, JOINER, PERIOD, OTHER = range(4)


@lru_cache(8)
def _kinds(vocabulary: Vocabulary) -> np.ndarray:
    """What each piece is, int32 [V]: a mark that joins letters, a period, another mark, or (part of) a word."""
    marks = {**dict.fromkeys("-&/", JOINER), ".": PERIOD}
    kinds = [marks.get(one, OTHER if len(one) == 1 and not one.isalnum() else LETTERS) for one in vocabulary.tokens]
    return np.array(kinds, "int32")


def continues(vocabulary: Vocabulary, ids: Any, start: Any, end: Any) -> "tf.Tensor":
    """Whether a word of the tokenizer continues the word before it, bool [W].

    A hyphen, &, / or period between letters joins them if no space is there. A period after such a word belongs to it
    if the word has another one: U.N. but not Rome.

    ids, start, end: of the pieces, [B, (words), (pieces)], the words of a text one after another.
    """
    lengths = tf.cast(ids.values.row_lengths(), tf.int32)  # [W]
    first = tf.cumsum(lengths, exclusive=True)  # [W], pieces
    row = row_ids(ids.row_lengths())  # [W]
    begins, ends = tf.gather(start.flat_values, first), tf.gather(end.flat_values, first + lengths - 1)  # [W]
    same = (begins[1:] == ends[:-1]) & (row[1:] == row[:-1])  # [W - 1], no space between
    no = row[:1] < 0
    adjacent = tf.concat([no, same], 0)[: tf.size(row)]  # [W]
    kind = tf.gather(_kinds(vocabulary), tf.gather(ids.flat_values, first))  # [W]
    letters, period = kind == LETTERS, kind == PERIOD

    def before(x: Any) -> Any:
        return tf.concat([no, x[:-1]], 0)

    def after(x: Any) -> Any:
        return tf.concat([x[1:], no], 0)

    between = ((kind == JOINER) | period) & adjacent & before(letters) & after(adjacent & letters)
    rest = before(between)  # the letters after the mark
    final = period & adjacent & before(rest) & before(before(between & period))
    return between | rest | final
