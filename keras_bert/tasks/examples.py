"""Tokenized examples, and how they become batches, packed to their longest row."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_bert import kernels
from keras_bert.text.packing import Packer, place

if TYPE_CHECKING:
    import tensorflow as tf

logger = logging.getLogger("keras_bert")

CHUNK = 1024  # texts tokenized at a time
GROUP = 4  # batches that are sorted by length together, where padding costs: few, so that they stay mixed


@dataclass(frozen=True)
class Examples:
    """Examples as ids, with what is to be learned.

    segments: ragged ids [R, (pieces)], one tensor for each text of a row. rows: how many rows make an example.
    targets, weights: dense [n, ...], or ragged [R, (pieces)] where each piece has its own.
    decoding: what the task's `decode` needs beside the logits, such as the texts and where their pieces stand.
    """

    segments: Sequence["tf.RaggedTensor"]
    packer: Packer
    rows: int = 1
    targets: Any = None
    weights: Any = None
    decoding: Any = None

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of positions each example takes, [n]."""
        return np.minimum(self._uncut, self.packer.max_length).reshape(-1, self.rows).max(1, initial=0)

    def warn_of_cuts(self) -> None:
        """Say how many rows lose pieces."""
        if cut := int((self._uncut > self.packer.max_length).sum()):
            logger.warning(
                "%d of %d rows are cut to %d pieces; the preprocessor's seq_length is the limit.",
                cut,
                len(self._uncut),
                self.packer.max_length,
            )

    @cached_property
    def _uncut(self) -> np.ndarray:
        pieces = np.sum([segment.row_lengths().numpy() for segment in self.segments], axis=0)  # [R]
        return pieces + len(self.segments) + 1

    def pack(self, index: Any, width: int | str = "longest") -> Any:
        """The batch of these examples, an int32 [B]: `x`, or Keras's triple where there are targets."""
        import tensorflow as tf

        with tf.device("CPU:0"):
            real, index = tf.cast(index >= 0, tf.float32), tf.maximum(index, 0)  # -1 fills a batch up
            rows = tf.reshape(index[:, None] * self.rows + tf.range(self.rows), [-1])  # [B * rows]
            x = self.packer.pack([tf.gather(segment, rows) for segment in self.segments], width)
            if keras.backend.backend() != "tensorflow" and width == "longest":
                x = self._few_widths(x)
            shape = tf.shape(x["input_mask"])
            if self.rows > 1:
                x = {name: tf.reshape(value, (-1, self.rows, shape[1])) for name, value in x.items()}
            if self.targets is None:
                return x
            targets, weights = self.targets_of(index, shape)  # each [B] or [B, ...]
            return x, targets, weights * tf.reshape(real, [-1] + [1] * (weights.shape.rank - 1))

    def targets_of(self, index: Any, shape: Any) -> tuple[Any, Any]:
        """The targets and the weights of these examples, whose inputs have this shape."""
        return _take(self.targets, index, shape), _take(self.weights, index, shape)

    def _few_widths(self, x: dict[str, Any]) -> dict[str, Any]:
        """Multiples of 16, since other backends compile for each width."""
        import tensorflow as tf

        width = tf.shape(x["input_mask"])[1]
        wider = tf.minimum((width + 15) // 16 * 16, self.packer.max_length) - width
        ids = {"input_word_ids": self.packer.pad}
        return {
            name: tf.pad(value, [[0, 0], [0, wider]], constant_values=ids.get(name, 0)) for name, value in x.items()
        }

    def batches(self, batch_size: int, *, by_length: bool = True) -> tuple[list[np.ndarray], Any]:
        """All examples once, the longest first or as given: the indices of each batch, and a tf.data of the batches."""
        import tensorflow as tf

        order = np.argsort(-self.lengths, kind="stable") if by_length else np.arange(len(self))
        index = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
        with tf.device("CPU:0"):
            dataset = tf.data.Dataset.from_tensor_slices(_filled(order, batch_size)).map(_without_filling)
            return index, dataset.map(self.pack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def shuffled(self, batch_size: int, *, seed: int, epoch: Any) -> Any:
        """A tf.data of one epoch's batches, whose order is a function of the seed and of the variable `epoch`."""
        import tensorflow as tf

        steps = -(-len(self) // batch_size)
        with tf.device("CPU:0"):
            by_length = not kernels.drops_padding()
            dataset = tf.data.Dataset.range(1).flat_map(lambda _: self._mixed(batch_size, seed, epoch, by_length))
            dataset = dataset.map(_without_filling).map(self.pack, num_parallel_calls=tf.data.AUTOTUNE)
            return dataset.apply(tf.data.experimental.assert_cardinality(steps)).prefetch(tf.data.AUTOTUNE)

    def static(self, batch_size: int, part: tuple[int, int], *, seed: int | None = None, first_epoch: int = 0) -> Any:
        """A tf.data of batches of one shape, of each the i-th of n equal parts; what fills the last one weighs nothing.

        With a seed, shuffled epochs without end; else all examples once.
        """
        import tensorflow as tf

        width = min(-(-int(self.lengths.max()) // 16) * 16, self.packer.max_length)
        rows = batch_size // part[1]
        with tf.device("CPU:0"):
            if seed is None:
                dataset = tf.data.Dataset.from_tensor_slices(_filled(np.arange(len(self)), batch_size))
            else:
                epochs = tf.data.Dataset.range(first_epoch, np.iinfo("int32").max)
                dataset = epochs.flat_map(lambda epoch: self._mixed(batch_size, seed, epoch, by_length=False))

            def pack(index: Any) -> Any:
                packed = self.pack(index[part[0] * rows : (part[0] + 1) * rows], width)
                return tf.nest.map_structure(lambda x: tf.ensure_shape(x, (rows, *x.shape[1:])), packed)

            return dataset.map(pack, num_parallel_calls=tf.data.AUTOTUNE)

    def _mixed(self, batch_size: int, seed: int, epoch: Any, by_length: bool) -> Any:
        """The indices of an epoch's batches: mixed; by length, sorted in groups of batches, the batches mixed again."""
        import tensorflow as tf

        count = len(self)
        steps = -(-count // batch_size)
        first = tf.cast(tf.constant(seed, tf.int64), tf.int32)
        within, between = tf.unstack(tf.random.split(tf.stack([first, tf.cast(epoch, tf.int32)]), 2))
        index = tf.argsort(tf.random.stateless_uniform([count], within))  # [n]
        if by_length:
            group = tf.range(count) // (GROUP * batch_size)
            lengths = tf.gather(tf.constant(self.lengths, tf.int32), index)
            index = tf.gather(index, tf.argsort(group * (1 << 16) - lengths, stable=True))
        index = tf.pad(index, [[0, steps * batch_size - count]], constant_values=-1)
        index = tf.reshape(index, (steps, batch_size))  # [steps, B]
        if by_length:
            index = tf.gather(index, tf.argsort(tf.random.stateless_uniform([steps], between)))
        return tf.data.Dataset.from_tensor_slices(index)


class Epoch(keras.callbacks.Callback):
    """Tells the order of the examples which epoch it is, in a run that goes on too."""

    def __init__(self, initial_epoch: int) -> None:
        import tensorflow as tf

        super().__init__()
        with tf.device("CPU:0"):
            self.number = tf.Variable(initial_epoch, dtype=tf.int32, trainable=False)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.number.assign(epoch)


def _filled(order: np.ndarray, batch_size: int) -> np.ndarray:
    """Indices in rows of a batch, [steps, B], the last filled up with -1."""
    missing = -len(order) % batch_size
    return np.pad(order, (0, missing), constant_values=-1).reshape(-1, batch_size).astype("int32")


def _without_filling(index: Any) -> Any:
    return index[index >= 0]


def _take(values: Any, index: Any, shape: Any) -> Any:
    """The rows of a dense tensor; of a ragged one, dense [B, S], a value beside each piece and 0 elsewhere."""
    import tensorflow as tf

    if not isinstance(values, tf.RaggedTensor):
        return tf.gather(values, index)
    rows = tf.gather(values, index)
    kept = tf.minimum(tf.cast(rows.row_lengths(), tf.int32), shape[1] - 2)
    return place(rows, kept, tf.ones_like(kept), tf.zeros(shape, rows.dtype))


def packer_of(bert: Any) -> Packer:
    """The packer of a Bert's preprocessor, bounded by its seq_length."""
    from keras_bert.inputs import check_length

    preprocessor, positions = bert.preprocessor, bert.config.max_position_embeddings
    limit = preprocessor.seq_length
    if limit == "longest":
        limit = min(preprocessor.max_length, positions)
    check_length(limit, positions)
    return replace(preprocessor.packer, max_length=limit)


def tokenize(preprocessor: Any, texts: Sequence[str], *, offsets: bool = False) -> tuple[Any, ...]:
    """Ragged ids [n, (words), (pieces)] of texts, with starts and ends where they are wanted."""
    import tensorflow as tf

    def split(chunk: Sequence[str]) -> tuple[Any, ...]:
        return preprocessor.tokenize_with_offsets(chunk) if offsets else (preprocessor.tokenize(chunk),)

    with tf.device("CPU:0"):
        chunks = [split(texts[start : start + CHUNK]) for start in range(0, max(len(texts), 1), CHUNK)]
        return tuple(tf.concat(parts, axis=0) for parts in zip(*chunks, strict=True))


def pieces(preprocessor: Any, texts: Sequence[str]) -> Any:
    """Ragged ids [n, (pieces)] of texts."""
    return tokenize(preprocessor, texts)[0].merge_dims(1, 2)


def interleave(*columns: Sequence[str]) -> list[str]:
    """The texts of a row one after the other.

    >>> interleave(["a", "b"], ["c", "d"])
    ['a', 'c', 'b', 'd']
    """
    return [text for row in zip(*columns, strict=True) for text in row]


def repeated(rows: Any, count: int) -> Any:
    """Each ragged row so many times, one after the other."""
    import tensorflow as tf

    with tf.device("CPU:0"):
        return tf.gather(rows, np.repeat(np.arange(int(rows.nrows())), count))
