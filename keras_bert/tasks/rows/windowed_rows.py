"""WindowedRows: the rows of a task that reads long texts in windows."""

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np

from keras_bert.tasks.rows.labelled_rows import LabelledRows
from keras_bert.text.tensors import tf
from keras_bert.text.tokenized_rows import TokenizedRows

logger = logging.getLogger("keras_bert")


@dataclass(frozen=True)
class WindowedRows(LabelledRows):
    """Long texts with what is to be learned from them. `segments` has their windows, one text after another.

    counts: the windows of each text, [n]. max_windows: a text of a batch has at most so many, spread evenly over it;
    None: no limit.
    """

    counts: Any = None
    max_windows: int | None = None

    def __post_init__(self) -> None:
        if len(self):
            _ = self.lengths  # which is asked for inside graphs, where it cannot be computed

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def first(self) -> np.ndarray:
        """The first window of each text, [n]."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of positions that a window of each text needs, [n]."""
        return np.maximum.reduceat(np.minimum(self._uncut, self.packer.max_length), self.first)

    @property
    def cut(self) -> int:
        """Of how many texts a batch has only some of the windows."""
        return int((self.counts > self.max_windows).sum()) if self.max_windows else 0

    def warn_of_cuts(self, rows: str = "rows", limit: str = "max_windows") -> None:
        if cut := self.cut:
            logger.warning(
                "%d of %d %s have more than %d windows. Training reads %d windows of each, spread evenly; %s is the "
                "limit. Answers read all windows.",
                cut, len(self), rows, self.max_windows, self.max_windows, limit,
            )  # fmt: skip

    def text_inputs(self, index: Any, width: int | str) -> dict[str, Any]:
        """int32 [B, K, S]: the windows of each text, and padding. On backends that compile each shape, K is fixed."""
        first, counts = (tf.gather(tf.constant(x, tf.int32), index) for x in (self.first, self.counts))  # [B]
        kept = counts if self.max_windows is None else tf.minimum(counts, self.max_windows)
        if keras.backend.backend() == "tensorflow" and width == "longest":
            per_text = tf.reduce_max(kept)
        else:
            per_text = int(min(self.counts.max(), self.max_windows or self.counts.max()))
        number = tf.range(per_text)[tf.newaxis]  # [1, K]
        real = number < kept[:, tf.newaxis]  # [B, K]
        # Spread evenly from the first to the last.
        spread = number * (counts - 1)[:, tf.newaxis] // tf.maximum(kept - 1, 1)[:, tf.newaxis]  # [B, K]
        window = first[:, tf.newaxis] + tf.where(real, spread, 0)  # [B, K]
        x = self.pack(tf.reshape(window, [-1]), width)  # [B * K, S]
        real = tf.reshape(real, [-1, 1])
        padding = {"input_word_ids": self.packer.pad}
        x = {name: tf.where(real, value, padding.get(name, 0)) for name, value in x.items()}
        return {name: tf.reshape(value, (-1, per_text, tf.shape(value)[1])) for name, value in x.items()}

    def shared_in_fit(self, batch_size: int, seed: int) -> None:
        """Not shared, since texts differ in the number of their windows."""

    def windows(self, texts: slice) -> tuple[TokenizedRows, np.ndarray]:
        """All windows of some texts, and how many each has."""
        counts = self.counts[texts]
        start = self.first[texts][0]
        return TokenizedRows([self.segments[0][start : start + counts.sum()]], self.packer), counts
