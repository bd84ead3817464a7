"""Which pieces of a row are to be guessed, and what stands there instead: BERT's masking as TensorFlow ops.

The paper's 15 % is met exactly: a row of m pieces gets 0.15 m of them on average, the fraction by chance. Google's code
rounds, counts [CLS] and [SEP] too and takes one at least, which makes it 15.2 % of full rows of 128 and more of short
ones. With whole words the word that would pass the number is taken with the chance that keeps the average.
"""

import math
from dataclasses import dataclass
from typing import Any

from keras_bert.text.vocabulary import SPECIAL, Vocabulary


@dataclass(frozen=True, kw_only=True)
class Masking:
    """The rates of the paper.

    >>> Masking().predictions(128), Masking().predictions(512)
    (20, 77)
    """

    rate: float = 0.15  # of the pieces, to be guessed
    mask: float = 0.8  # of these, [MASK]
    random: float = 0.1  # of these, another piece; the rest stays as it is
    whole_word: bool = False  # choose words, and all pieces of each
    max_predictions: int | None = None  # P; None: rate x seq_length, rounded up

    def __post_init__(self) -> None:
        for name in ("rate", "mask", "random"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1. Received: {name}={getattr(self, name)}")
        if not self.rate:
            raise ValueError("rate must be above 0, or there is nothing to learn. Received: rate=0")
        if self.mask + self.random > 1:
            raise ValueError(
                "mask and random are shares of the chosen pieces, so at most 1 together. "
                f"Received: mask={self.mask}, random={self.random}"
            )
        if self.max_predictions is not None and self.max_predictions < 1:
            raise ValueError(f"max_predictions must be at least 1. Received: {self.max_predictions}")

    def predictions(self, seq_length: int) -> int:
        """P for rows of this length."""
        return min(self.max_predictions or max(1, math.ceil(self.rate * seq_length)), seq_length)


class Masker:
    """Masks rows of ids [B, S] by a seed: the same seed, the same masks, on any machine."""

    def __init__(self, masking: Masking, vocabulary: Vocabulary, seq_length: int) -> None:
        import numpy as np

        if "[MASK]" not in vocabulary:
            raise ValueError(f"Masking needs the piece [MASK]. Add it to the vocabulary. Received: {vocabulary!r}")
        self.masking = masking
        self.predictions = masking.predictions(seq_length)
        special = [token in SPECIAL or token.startswith("[unused") for token in vocabulary]
        self._mask = vocabulary["[MASK]"]
        self._never = [vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]")]
        self._ordinary = np.flatnonzero(np.logical_not(special)).astype(np.int32)  # may stand in for another piece
        if not len(self._ordinary):
            raise ValueError(f"Masking needs pieces that are not special. Received: {vocabulary!r}")
        self._continues = np.array([token.startswith("##") for token in vocabulary])

    def __call__(self, ids: Any, seed: Any, part: tuple[int, int] = (0, 1)) -> dict[str, Any]:
        """The rows with their masks: `input_ids` [B, S] and `masked_lm_positions`, `_ids`, `_weights` [B, P].

        part: (i, n) where these rows are part i of the n parts of a batch; the masks are those of the whole batch.
        """
        import tensorflow as tf

        rows, length = tf.unstack(tf.shape(ids))
        noise = self._noise(seed, rows, length, part)
        positions, chosen = self._choose(ids, noise[0], noise[1])  # [B, P]
        truth = tf.gather(ids, positions, batch_dims=1)  # [B, P]
        draw, other = (tf.gather(draws, positions, batch_dims=1) for draws in (noise[2], noise[3]))
        index = tf.cast(other * len(self._ordinary), tf.int32)
        shown = tf.where(draw < self.masking.mask, self._mask, tf.gather(self._ordinary, index))
        shown = tf.where(draw < self.masking.mask + self.masking.random, shown, truth)
        shown = tf.where(chosen, shown, truth)
        row = tf.broadcast_to(tf.range(rows)[:, tf.newaxis], tf.shape(positions))
        # Padding among the positions points at [CLS] and writes it over itself.
        masked = tf.tensor_scatter_nd_update(ids, tf.stack([row, positions], axis=-1), shown)
        return {
            "input_ids": masked,
            "masked_lm_positions": positions,
            "masked_lm_ids": tf.where(chosen, truth, 0),
            "masked_lm_weights": tf.cast(chosen, tf.float32),
        }

    def _noise(self, seed: Any, rows: Any, length: Any, part: tuple[int, int]) -> list[Any]:
        """Four uniform draws for each position, [B, S] each."""
        import tensorflow as tf

        index, parts = part
        draws = tf.random.stateless_uniform([4, rows * parts, length], seed, alg="philox")
        return tf.unstack(draws[:, rows * index : rows * (index + 1)])

    def _choose(self, ids: Any, order: Any, luck: Any) -> tuple[Any, Any]:
        """P positions of each row in ascending order, and which of them are chosen; the others are 0."""
        import tensorflow as tf

        rows, length = tf.unstack(tf.shape(ids))
        open_ = tf.reduce_all(ids[:, :, tf.newaxis] != self._never, axis=-1)  # [B, S]
        begins = open_
        if self.masking.whole_word:
            # The rest of a word that was cut off is a word here.
            before = tf.pad(open_, [[0, 0], [1, 0]])[:, :-1]
            begins &= ~(tf.gather(self._continues, ids) & before)
        # Words count through all rows; what stands before a row's first word falls to the word before, and is not open.
        word = tf.reshape(tf.cumsum(tf.cast(tf.reshape(begins, [-1]), tf.int32)), [rows, length])
        words = rows * length + 1
        column = tf.broadcast_to(tf.range(length)[tf.newaxis], [rows, length])
        far = tf.where(open_, column, length)
        first = tf.gather(tf.math.unsorted_segment_min(far, word, words), word)  # [B, S]
        pieces = tf.gather(tf.math.unsorted_segment_sum(tf.cast(open_, tf.int32), word, words), word)  # [B, S]
        first = tf.where(open_, first, column)
        order, luck = (tf.gather(draws, first, batch_dims=1) for draws in (order, luck))  # one draw for each word
        # Words in a random order, the pieces of each in theirs; equal draws are parted by the word's place.
        order = tf.cast(order * 2.0**23, tf.int64) * tf.cast(length, tf.int64) + tf.cast(first, tf.int64)
        order = tf.where(open_, order, tf.int64.max)
        _, places = tf.math.top_k(-order, tf.minimum(self.predictions, length))  # [B, P]
        gathered = [tf.gather(values, places, batch_dims=1) for values in (open_, pieces, first, luck)]
        chosen, pieces, first, luck = gathered
        before = tf.range(tf.shape(places)[1])[tf.newaxis] - (places - first)  # pieces of the words before this one
        wanted = self.masking.rate * tf.reduce_sum(tf.cast(open_, tf.float32), axis=1, keepdims=True)  # [B, 1]
        chosen &= before + pieces <= self.predictions
        chosen &= luck * tf.cast(pieces, tf.float32) < wanted - tf.cast(before, tf.float32)
        places = tf.sort(tf.where(chosen, places, length), axis=1)
        chosen = places < length
        return tf.where(chosen, places, 0), chosen
