"""TokenizedRows: texts that are tokenized once, and packed into rows as often as a model reads them."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import keras
import numpy as np

from keras_bert.text.numpy_ragged import RaggedTensor
from keras_bert.text.packing import Packer
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.shared_rows import MANY, WORTH, SharedRows, alike, shares_rows
from keras_bert.text.split_hangul import warn_of_split_hangul
from keras_bert.text.tensors import arrays, tf, uses_arrays, uses_tensorflow
from keras_bert.text.vocabulary import warn_of_unknown

logger = logging.getLogger("keras_bert")

CHUNK = 1024  # texts tokenized at a time
FEW = 8  # texts, up to which TensorFlow takes longer


@dataclass(frozen=True)
class TokenizedRows:
    """Rows of one or more segments, as ids. An example is one row, or several that the model compares.

    segments: ragged int32 ids [R, (pieces)], in TensorFlow or numpy, one for each segment of a row. packer: its
    `max_length` limits a row. rows_per_example: 1, or for example the number of choices. advice: for the log, if rows
    are too long.

    >>> import tensorflow as tf
    >>> rows = TokenizedRows([tf.ragged.constant([[5], [6, 7, 8], [9]])], Packer(2, 3, 0, max_length=4))
    >>> rows.lengths.tolist(), [index.tolist() for index in rows.by_length(2)]
    ([3, 4, 3], [[1, 0], [2]])
    >>> rows.pack([1, 0], width=5)["input_word_ids"].numpy().tolist()
    [[2, 6, 7, 8, 3], [2, 5, 3, 0, 0]]
    """

    segments: Sequence["tf.RaggedTensor"]
    packer: Packer
    rows_per_example: int = 1
    advice: str = field(default="", kw_only=True)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def row_lengths(self) -> np.ndarray:
        """The number of positions that each row of each example needs, [n, rows per example]."""
        return np.minimum(self._uncut, self.packer.max_length).reshape(-1, self.rows_per_example)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of positions that each example needs, [n]."""
        return self.row_lengths.max(1, initial=0)

    @property
    def widest(self) -> int:
        """A width into which every row fits."""
        return min(-(-int(self.lengths.max()) // 16) * 16, self.packer.max_length)

    @cached_property
    def _uncut(self) -> np.ndarray:
        pieces = np.sum([np.asarray(segment.row_lengths()) for segment in self.segments], axis=0)  # [R]
        return pieces + len(self.segments) + 1

    @cached_property
    def order(self) -> np.ndarray:
        """The indices of the examples, the longest first."""
        return np.argsort(-self.lengths, kind="stable")

    @property
    def cut(self) -> int:
        """How many rows lose pieces."""
        return int((self._uncut > self.packer.max_length).sum())

    def warn_of_cuts(self, rows: str = "rows", limit: str = "the preprocessor's seq_length") -> None:
        """Log how many rows lose pieces.

        rows: what to call them. limit: the name of the setting that decides.
        """
        if cut := self.cut:
            if self.rows_per_example > 1:
                rows = rows.replace("rows", "texts")
            total = len(self._uncut)
            are_cut = "The row is" if total == 1 else f"{cut} of {total} {rows} {'is' if cut == 1 else 'are'}"
            said = f"%s cut to %d pieces; %s is the limit. {self.advice}".rstrip()
            logger.warning(said, are_cut, self.packer.max_length, limit)

    def warn_of_unknown(self, unknown: int) -> None:
        """Log it if many pieces have this id, that of [UNK]."""
        ids = [np.asarray(segment.flat_values) for segment in self.segments]
        warn_of_unknown(sum(int((one == unknown).sum()) for one in ids), sum(map(len, ids)), "the training rows")

    def by_length(self, size: int | None = None, *, tokens: int | None = None) -> list[np.ndarray]:
        """The indices of batches, the longest examples first, so that what does not fit into memory fails at once.

        Where texts can share rows and there is enough padding, each batch has short and long examples.

        size: examples in a batch. tokens: in place of it, positions in a batch, so that long examples come in fewer.
        """
        if size and 0 < len(self) <= size:
            return [np.arange(len(self))]  # a single batch needs no order
        batches, start = [], 0
        while start < len(self):
            end = start + (size or _rows_within(tokens or 0, int(self.lengths[self.order[start]])))
            batches.append(self.order[start:end])
            start = end
        if not (shares_rows() and len(self) >= MANY):
            return batches
        totals = self.row_lengths.sum(1)  # [n]
        size = size or _rows_within(tokens or 0, totals.mean())
        mixed = alike(self.order[::-1], totals, size)
        first = self.row_lengths[mixed[0]].ravel()
        saves = WORTH * len(mixed) * SharedRows.roughly(first).positions(first) < sum(map(self._padded, batches))
        return mixed if saves else batches

    def shared(self, index: np.ndarray) -> SharedRows | None:
        """How the rows of a batch to predict are shared, if that saves enough positions."""
        if not (shares_rows() and len(self) >= MANY):
            return None
        lengths = self.row_lengths[index].ravel()
        shared = SharedRows.roughly(lengths)
        return shared if WORTH * shared.positions(lengths) < self._padded(index) else None

    def _padded(self, index: np.ndarray) -> int:
        """How many positions the model computes for a batch whose rows are not shared."""
        return len(index) * self.rows_per_example * -(-int(self.lengths[index].max()) // 16) * 16

    def pack(self, index: Any, width: int | str = "longest") -> Any:
        """The model's inputs for the examples with these indices: int32 [B, S], or [B, rows per example, S].

        The longest row decides S unless `width` does; on backends that compile each shape, S is a multiple of 16.
        """
        count = self.rows_per_example
        with tf.device("CPU:0"):
            index = tf.convert_to_tensor(index)
            if count > 1:
                index = tf.reshape(index[:, None] * count + tf.range(count, dtype=index.dtype), [-1])
            x = self.packer.pack([tf.gather(as_tensors(segment), index) for segment in self.segments], width)
            if keras.backend.backend() != "tensorflow" and width == "longest":
                x = self._widened(x)
            if count > 1:
                x = {name: tf.reshape(value, (-1, count, tf.shape(value)[1])) for name, value in x.items()}
            return x

    def packed(self, index: np.ndarray, width: int | str = "longest") -> dict[str, np.ndarray]:
        """The same in numpy, which takes less time than TensorFlow outside of a graph."""
        with arrays():
            return self._in_arrays.pack(index, width)

    @cached_property
    def _in_arrays(self) -> "TokenizedRows":
        segments = [RaggedTensor(np.asarray(one.values), np.asarray(one.row_splits)) for one in self.segments]
        return TokenizedRows(segments, self.packer, self.rows_per_example)

    def _widened(self, x: dict[str, Any]) -> dict[str, Any]:
        width = tf.shape(x["input_mask"])[1]
        wider = tf.minimum((width + 15) // 16 * 16, self.packer.max_length) - width
        pad = {"input_word_ids": self.packer.pad}
        return {
            name: tf.pad(value, [[0, 0], [0, wider]], constant_values=pad.get(name, 0)) for name, value in x.items()
        }


def _rows_within(tokens: int, length: float) -> int:
    """How many rows of a length a batch of so many positions has; a power of two where the runner fills it to one."""
    count = max(1, int(tokens / length))
    return 1 << count.bit_length() - 1 if shares_rows() else count


def tokenize(preprocessor: Any, texts: Any, *, offsets: bool = False) -> tuple[Any, ...]:
    """Ragged ids [n, (words), (pieces)] of a column of texts, and with `offsets` the starts and ends of the pieces."""
    if _is_preprocessor(preprocessor):
        warn_of_split_hangul(texts.numpy() if hasattr(texts, "numpy") else texts, preprocessor)

    def split(chunk: Any) -> tuple[Any, ...]:
        return preprocessor.tokenize_with_offsets(chunk) if offsets else (preprocessor.tokenize(chunk),)

    with tf.device("CPU:0"):
        chunks = [split(texts[start : start + CHUNK]) for start in range(0, max(len(texts), 1), CHUNK)]
        return tuple(tf.concat(parts, axis=0) for parts in zip(*chunks, strict=True))


def quickly(preprocessor: Any, texts: Any) -> AbstractContextManager[None]:
    """A block in which a few texts are read and answered without TensorFlow's ops around the model.

    They take milliseconds for the first text, and less for each further one; the results are the same.
    """
    return arrays() if len(texts) <= FEW and _is_preprocessor(preprocessor) else nullcontext()


def _is_preprocessor(x: Any) -> bool:
    """Whether something that tokenizes is a Preprocessor, and not one of its parts."""
    return hasattr(x, "plain_tokenizer")


def pieces(preprocessor: Any, texts: Any) -> Any:
    """Ragged ids [n, (pieces)] of a column of texts; of a few texts in arrays, see `as_tensors`."""
    with quickly(preprocessor, texts):
        if not uses_arrays():
            return without_words(tokenize(preprocessor, texts)[0])
        column = np.asarray(texts).tolist()
        column = [text.encode("utf-8", "replace") if isinstance(text, str) else text for text in column]
        warn_of_split_hangul(column, preprocessor)
        return without_words(preprocessor.plain_tokenizer.tokenize(column))


def as_tensors(rows: Any) -> Any:
    """Ragged rows for the engine of text that runs: those in arrays become TensorFlow's where that is the one."""
    if not (uses_tensorflow() and isinstance(rows, RaggedTensor)):
        return rows
    with tf.device("CPU:0"):
        return tf.RaggedTensor.from_row_splits(rows.values, rows.row_splits, validate=False)
