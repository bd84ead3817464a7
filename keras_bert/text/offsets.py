"""From the bytes of the normalized words back to the characters of the given text."""

from functools import cache
from typing import Any

from keras_bert.lazy import tf
from keras_bert.text.normalizer import BLOCK, MOVING_MARKS, Normalizer, single_characters
from keras_bert.text.row_ids import row_ids

_SCRIPTS = 0x32400  # all characters with a rule of their own are below this, except
_TAGS = range(0xE0000, 0xE1000)


class Aligner:
    """Finds the characters that spans of bytes of the words came from, by the number of bytes each character leaves.

    The normalizer itself fills a table with these numbers. Only words are counted, so white space leaves no bytes.
    """

    def __init__(self, normalizer: Normalizer) -> None:
        self._normalizer = normalizer
        with tf.init_scope(), tf.device("CPU:0"):
            rules = normalizer.lowercase, normalizer.strip_accents, normalizer.split_cjk
            self._widths = _widths(*rules, tuple(normalizer.stand_ins))
            lengths = {stand_in: len(token) for token, stand_in in normalizer.stand_ins.items()}
            self._lengths = tf.constant([lengths.get(chr(number), 1) for number in range(32)])

    def __call__(self, texts: Any, words: Any, starts: Any, ends: Any, rows: Any) -> tuple[Any, Any]:
        """The characters [start, end) of each piece.

        texts: [B], decoded by the normalizer. words: the words of all texts, flat and in order.
        starts, ends: the bytes [start, end) of each piece in the concatenated words. rows: the text of each piece.
        """
        characters = tf.strings.unicode_decode(texts, "UTF-8")  # [B, (characters)]
        points = characters.values  # [N]
        widths = tf.cast(tf.gather(self._widths, points), tf.int32)
        owners = row_ids(widths)  # [bytes]

        def in_order() -> tuple[Any, Any]:
            return tf.gather(owners, starts), tf.gather(owners, ends - 1)

        def out_of_order() -> tuple[Any, Any]:
            moved = self._reordered_owners(points, words)
            pieces = row_ids(ends - starts)
            return tf.math.segment_min(moved, pieces), tf.math.segment_max(moved, pieces)

        tf.debugging.assert_equal(
            tf.size(owners),
            tf.reduce_sum(tf.strings.length(words)),
            "The offsets do not account for every byte of the words. Please report this text as a bug.",
        )
        if self._normalizer.strip_accents:
            moves = tf.reduce_any(tf.strings.regex_full_match(texts, rf"(?s).*[{MOVING_MARKS}]\p{{M}}.*"))
            first, last = tf.cond(moves, out_of_order, in_order)
        else:
            first, last = in_order()
        begins = tf.cast(characters.row_splits[:-1], tf.int32)  # [B]
        if not self._normalizer.stand_ins:
            begin = tf.gather(begins, rows)
            return first - begin, last + 1 - begin
        lengths = tf.where(points < 32, tf.gather(self._lengths, tf.minimum(points, 31)), 1)
        given = tf.concat([[0], tf.cumsum(lengths)], 0)  # [N + 1]: where each character begins in the given text
        begin = tf.gather(tf.gather(given, begins), rows)
        return tf.gather(given, first) - begin, tf.gather(given, last + 1) - begin

    def _reordered_owners(self, points: Any, words: Any) -> Any:
        """The character that each byte came from, where NFD has sorted marks that are kept.

        Equal code points keep their order. So the n-th of them in the words is the n-th of them that the characters
        leave when each is normalized as a text of its own.
        """
        rare = points > 127
        distinct, places = tf.unique(tf.boolean_mask(points, rare))  # only these: it takes 36 bytes for each
        distinct = tf.concat([tf.range(128), distinct], 0)
        places = tf.tensor_scatter_nd_update(points, tf.where(rare), 128 + places)
        alone = self._normalizer.normalize(single_characters(distinct))
        alone = tf.strings.unicode_decode(tf.strings.regex_replace(alone, r"[ \t\n\r]+", ""), "UTF-8")
        alone = tf.gather(alone, places)  # [characters, (what it leaves)]
        together = tf.strings.unicode_decode(words, "UTF-8").values
        final = tf.fill(tf.shape(together), ord("σ"))  # a single sigma is never a final one
        order = tf.argsort(tf.where(together == ord("ς"), final, together), stable=True)
        source = tf.argsort(tf.where(alone.values == ord("ς"), final, alone.values), stable=True)
        owners = tf.scatter_nd(order[:, None], tf.gather(row_ids(alone.row_lengths()), source), tf.shape(together))
        widths = 1 + sum(tf.cast(together >= first, tf.int32) for first in (0x80, 0x800, 0x10000))
        return tf.gather(owners, row_ids(widths))


@cache
def _widths(lowercase: bool, strip_accents: bool, split_cjk: bool, special_tokens: tuple[str, ...]) -> Any:
    """How many bytes of words each character leaves as a text of its own: [0x110000]."""
    normalizer = Normalizer(lowercase, strip_accents, split_cjk, special_tokens)

    def measure(first: int, count: int) -> Any:
        characters = single_characters(tf.range(first, first + count))
        left = tf.strings.regex_replace(normalizer.normalize(characters), r"[ \t\n\r]+", "")
        return tf.cast(tf.strings.length(left), tf.uint8)

    # In blocks, because the steps for rare letters run only on the blocks that have one.
    scripts = [measure(first, BLOCK) for first in range(0, _SCRIPTS, BLOCK)]
    gap, rest = (tf.fill([size], tf.constant(4, tf.uint8)) for size in (_TAGS.start - _SCRIPTS, 0x110000 - _TAGS.stop))
    return tf.concat([*scripts, gap, measure(_TAGS.start, len(_TAGS)), rest], 0)
