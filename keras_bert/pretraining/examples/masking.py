"""BERT's masking as TensorFlow ops: which pieces of a row are to be predicted, and what replaces them.

The paper's 15 % are exact on average: of m pieces 0.15 m are chosen, where chance decides about the fraction. Google's
code rounds, counts [CLS] and [SEP] too, and chooses at least one, which makes 15.2 % in full rows of 128 and more in
short ones. With whole words, the last word is chosen with the probability that keeps the average.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.checks import check_positive, check_share
from keras_bert.lazy import tf
from keras_bert.text.vocabulary import SPECIAL, Vocabulary

_PHILOX = 1  # as TensorFlow's random operations number it


@dataclass(frozen=True, kw_only=True)
class Masking:
    """Which pieces are masked, and how; the defaults are those of the paper.

    >>> Masking().predictions(128), Masking().predictions(512)
    (20, 77)
    """

    rate: float = 0.15  # the share of the pieces to be predicted
    mask: float = 0.8  # the share of these that become [MASK]
    random: float = 0.1  # the share of these that become another piece; the rest stays as it is
    whole_word: bool = False  # whether all pieces of a word are chosen together
    max_predictions: int | None = None  # P; None: rate x seq_length, rounded up

    def __post_init__(self) -> None:
        check_share(self, "rate", "mask", "random")
        if not self.rate:
            raise ValueError(
                "`rate` must be above 0: without masked pieces there is nothing to learn. Received: rate=0"
            )
        if self.mask + self.random > 1:
            raise ValueError(
                "`mask` and `random` must not add up to more than 1, since they are shares of the chosen pieces. "
                f"Received: mask={self.mask}, random={self.random}"
            )
        if self.max_predictions is not None:
            check_positive(self, "max_predictions")

    def predictions(self, seq_length: int) -> int:
        """P for rows of this length."""
        return min(self.max_predictions or max(1, math.ceil(self.rate * seq_length)), seq_length)


class Masker:
    """Masks rows of ids [B, S]. The same seed gives the same masks on any machine."""

    def __init__(self, masking: Masking, vocabulary: Vocabulary, seq_length: int) -> None:
        if "[MASK]" not in vocabulary:
            raise ValueError(f"The vocabulary has no [MASK], which masking needs. Add it. Received: {vocabulary!r}")
        self.masking = masking
        self.predictions = masking.predictions(seq_length)
        special = [token in SPECIAL or token.startswith("[unused") for token in vocabulary]
        self._mask = vocabulary["[MASK]"]
        self._never = [vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]")]
        self._ordinary = np.flatnonzero(np.logical_not(special)).astype(np.int32)  # may replace a piece
        if not len(self._ordinary):
            raise ValueError(
                "The vocabulary has only special pieces, but masking replaces some pieces by ordinary ones. Use a "
                f"learned vocabulary. Received: {vocabulary!r}"
            )
        self._continues = np.array([token.startswith("##") for token in vocabulary])

    def __call__(self, ids: Any, seed: Any, part: tuple[int, int] = (0, 1)) -> dict[str, Any]:
        """The masked rows: `input_ids` [B, S] and `masked_lm_positions`, `_ids`, `_weights` [B, P].

        part: (i, n) if these rows are part i of the n parts of a batch; they get the masks they have in that batch.
        """
        rows, length = ids.shape
        order, luck, draw, other = _noise(seed, rows, length, part)  # each [B, S]
        positions, chosen = self._choose(ids, order, luck)  # [B, P]
        truth = tf.gather(ids, positions, batch_dims=1)  # [B, P]
        draw, other = (tf.gather(draws, positions, batch_dims=1) for draws in (draw, other))  # [B, P]
        replacement = tf.gather(self._ordinary, tf.cast(other * len(self._ordinary), tf.int32))
        shown = tf.where(draw < self.masking.mask, self._mask, replacement)
        shown = tf.where(draw < self.masking.mask + self.masking.random, shown, truth)
        shown = tf.where(chosen, shown, truth)
        row = tf.broadcast_to(tf.range(rows)[:, tf.newaxis], tf.shape(positions))
        # Unused positions are 0, where [CLS] is replaced by itself.
        masked = tf.tensor_scatter_nd_update(ids, tf.stack([row, positions], axis=-1), shown)
        return {
            "input_ids": masked,
            "masked_lm_positions": positions,
            "masked_lm_ids": tf.where(chosen, truth, 0),
            "masked_lm_weights": tf.cast(chosen, tf.float32),
        }

    def _choose(self, ids: Any, order: Any, luck: Any) -> tuple[Any, Any]:
        """P positions of each row in ascending order, and whether each is used; unused ones are 0."""
        rows, length = tf.unstack(tf.shape(ids))
        open_ = tf.reduce_all(ids[:, :, tf.newaxis] != self._never, axis=-1)  # [B, S]
        begins = open_
        if self.masking.whole_word:
            # What is left of a word that was cut off counts as a word.
            before = tf.pad(open_, [[0, 0], [1, 0]])[:, :-1]
            begins &= ~(tf.gather(self._continues, ids) & before)
        # Words are numbered through all rows. What precedes a row's first word gets the number before; it is not open.
        word = tf.reshape(tf.cumsum(tf.cast(tf.reshape(begins, [-1]), tf.int32)), [rows, length])
        words = rows * length + 1
        column = tf.broadcast_to(tf.range(length)[tf.newaxis], [rows, length])
        far = tf.where(open_, column, length)
        first = tf.gather(tf.math.unsorted_segment_min(far, word, words), word)  # [B, S]
        pieces = tf.gather(tf.math.unsorted_segment_sum(tf.cast(open_, tf.int32), word, words), word)  # [B, S]
        first = tf.where(open_, first, column)
        order, luck = (tf.gather(draws, first, batch_dims=1) for draws in (order, luck))  # one number for each word
        # Words in random order, with their pieces in order; the word's place decides between equal numbers.
        order = tf.cast(order * 2.0**23, tf.int64) * tf.cast(length, tf.int64) + tf.cast(first, tf.int64)
        order = tf.where(open_, order, tf.int64.max)
        _, places = tf.math.top_k(-order, tf.minimum(self.predictions, length))  # [B, P]
        chosen, pieces, first, luck = (tf.gather(x, places, batch_dims=1) for x in (open_, pieces, first, luck))
        before = tf.range(tf.shape(places)[1])[tf.newaxis] - (places - first)  # pieces in front of this word
        wanted = self.masking.rate * tf.reduce_sum(tf.cast(open_, tf.float32), axis=1, keepdims=True)  # [B, 1]
        chosen &= before + pieces <= self.predictions
        chosen &= luck * tf.cast(pieces, tf.float32) < wanted - tf.cast(before, tf.float32)
        places = tf.sort(tf.where(chosen, places, length), axis=1)
        chosen = places < length
        return tf.where(chosen, places, 0), chosen


def _noise(seed: Any, rows: int, length: int, part: tuple[int, int]) -> list[Any]:
    """The rows of this part [B, S] in each array of `tf.random.stateless_uniform([4, B x parts, S])`.

    Philox can start at any place of its stream, so that no numbers are drawn for the rows of other hosts.
    """
    index, parts = part
    starts = [(kind * parts + index) * rows * length for kind in range(4)]  # in the stream, whose blocks have 4 numbers
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    low = counter[0] + np.array(starts, np.uint64) // 4  # [4]
    high = counter[1] + tf.cast(low < counter[0], tf.uint64)  # [4], with what the lower words carry
    counters = tf.unstack(tf.stack([low, high], axis=1))  # 4 x [2]
    draws = []
    for start, counter in zip(starts, counters, strict=True):
        skipped, shape = start % 4, [start % 4 + rows * length]
        numbers = tf.raw_ops.StatelessRandomUniformV2(shape=shape, key=key, counter=counter, alg=_PHILOX)
        draws.append(tf.reshape(numbers[skipped:] if skipped else numbers, [rows, length]))  # [B, S]
    return draws
