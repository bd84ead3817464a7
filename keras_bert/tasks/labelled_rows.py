"""LabelledRows: the tokenized rows of a task, and the batches it is trained and validated on."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import keras
import numpy as np

from keras_bert import kernels
from keras_bert.inputs import check_length
from keras_bert.text.packing import Packer, place
from keras_bert.text.tensors import in_graph, tf
from keras_bert.text.tokenized_rows import TokenizedRows

GROUP = 4  # batches that are sorted by length together where padding costs time; few, so that they stay mixed


@dataclass(frozen=True)
class LabelledRows(TokenizedRows):
    """Tokenized rows with what is to be learned from them; without these, a task only predicts.

    targets, weights: dense [n, ...], or ragged [R, (pieces)] where each piece has its own.
    decoding: what the task's `decode` needs beside the logits, such as the texts and the places of their pieces.
    advice: for the log, if rows are too long. others: further inputs of the model by name, each [n, ...].
    """

    targets: Any = None
    weights: Any = None
    decoding: Any = None
    advice: str = ""
    others: dict[str, np.ndarray] = field(default_factory=dict)

    def warn_of_cuts(self, limit: str = "the preprocessor's seq_length", advice: str = "") -> None:
        super().warn_of_cuts(limit, advice or self.advice)

    def pack(self, index: Any, width: int | str = "longest") -> Any:
        """The batch of the examples with these indices, int32 [B]: `x`, or Keras's triple where there are targets.

        An index of -1 is a filler: some example, with weight 0.
        """
        with tf.device("CPU:0"):
            real, index = tf.cast(index >= 0, tf.float32), tf.maximum(index, 0)
            x = self.inputs(index, width) | {name: tf.gather(one, index) for name, one in self.others.items()}
            if self.targets is None:
                return x
            shape = tf.shape(x["input_mask"])
            targets, weights = self.targets_of(index, shape)  # each [B] or [B, ...]
            return x, targets, weights * tf.reshape(real, [-1] + [1] * (len(weights.shape) - 1))

    def inputs(self, index: Any, width: int | str) -> dict[str, Any]:
        """The model's inputs for the examples with these indices."""
        return super().pack(index, width)

    def targets_of(self, index: Any, shape: Any) -> tuple[Any, Any]:
        """The targets and the weights of these examples, whose inputs have this shape."""
        return _take(self.targets, index, shape), _take(self.weights, index, shape)

    @property
    def widest(self) -> int:
        """A width into which every row fits."""
        return min(-(-int(self.lengths.max()) // 16) * 16, self.packer.max_length)

    def batches(self, batch_size: int) -> Any:
        """The batches of all examples, in their order: a tf.data, or without TensorFlow Text a PyDataset."""
        index = _filled(np.arange(len(self)), batch_size)
        if not in_graph():
            return Batches(self, lambda epoch: index, len(index))
        with tf.device("CPU:0"):
            dataset = tf.data.Dataset.from_tensor_slices(index).map(_without_filling)
            return dataset.map(self.pack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def shuffled(self, batch_size: int, *, seed: int, epoch: Any) -> Any:
        """One epoch's batches, whose order is a function of the seed and of the variable `epoch`; as `batches`."""
        steps = -(-len(self) // batch_size)
        by_length = not kernels.drops_padding()
        if not in_graph():
            return Batches(self, lambda number: self._mixed(batch_size, seed, number, by_length), steps, epoch)

        def mixed(_: Any) -> Any:
            return tf.data.Dataset.from_tensor_slices(self._mixed(batch_size, seed, epoch, by_length))

        with tf.device("CPU:0"):
            dataset = tf.data.Dataset.range(1).flat_map(mixed)
            dataset = dataset.map(_without_filling).map(self.pack, num_parallel_calls=tf.data.AUTOTUNE)
            return dataset.apply(tf.data.experimental.assert_cardinality(steps)).prefetch(tf.data.AUTOTUNE)

    def static(self, batch_size: int, part: tuple[int, int], *, seed: int | None = None, first_epoch: int = 0) -> Any:
        """A tf.data of batches of one shape, of which `part` (i, n) is the i-th of n equal parts.

        Fillers in the last batch have weight 0. With a seed, epochs are shuffled and never end; without, each example
        comes once.
        """
        rows = batch_size // part[1]
        with tf.device("CPU:0"):
            if seed is None:
                dataset = tf.data.Dataset.from_tensor_slices(_filled(np.arange(len(self)), batch_size))
            else:
                epochs = tf.data.Dataset.range(first_epoch, np.iinfo("int32").max)

                def mixed(epoch: Any) -> Any:
                    return tf.data.Dataset.from_tensor_slices(self._mixed(batch_size, seed, epoch, by_length=False))

                dataset = epochs.flat_map(mixed)

            def pack(index: Any) -> Any:
                packed = self.pack(index[part[0] * rows : (part[0] + 1) * rows], self.widest)
                return tf.nest.map_structure(lambda x: tf.ensure_shape(x, (rows, *x.shape[1:])), packed)

            return dataset.map(pack, num_parallel_calls=tf.data.AUTOTUNE)

    def _mixed(self, batch_size: int, seed: int, epoch: Any, by_length: bool) -> Any:
        """The indices of the batches of an epoch [steps, B], shuffled; by length, sorted within groups of batches."""
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
        return index


class Batches(keras.utils.PyDataset):
    """The batches of rows in the order that a function of the epoch returns, as indices [steps, B]."""

    def __init__(self, rows: LabelledRows, order: Callable[[int], np.ndarray], steps: int, epoch: Any = 0) -> None:
        super().__init__()
        self._rows = rows
        self._order = lru_cache(1)(order)
        self._steps = steps
        self._epoch = epoch

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, number: int) -> Any:
        # On TensorFlow, Keras expects later batches to be no longer than the first two, and padding is not computed.
        width = self._rows.widest if keras.backend.backend() == "tensorflow" else "longest"
        return self._rows.pack(_without_filling(self._order(int(self._epoch))[number]), width)


def _filled(order: np.ndarray, batch_size: int) -> np.ndarray:
    """Indices in batches, [steps, B], with -1 as filler in the last one."""
    missing = -len(order) % batch_size
    return np.pad(order, (0, missing), constant_values=-1).reshape(-1, batch_size).astype("int32")


def _without_filling(index: Any) -> Any:
    return index[index >= 0]


def _take(values: Any, index: Any, shape: Any) -> Any:
    """Rows of a dense tensor; of a ragged one, dense [B, S] with a value for each piece and 0 elsewhere."""
    if not isinstance(values, tf.RaggedTensor):
        return tf.gather(values, index)
    rows = tf.gather(values, index)
    kept = tf.minimum(tf.cast(rows.row_lengths(), tf.int32), shape[1] - 2)
    return place(rows, kept, tf.ones_like(kept), tf.zeros(shape, rows.dtype))


def packer_of(bert: Any) -> Packer:
    """The packer of a Bert's preprocessor, limited by its seq_length."""
    preprocessor, positions = bert.preprocessor, bert.config.max_position_embeddings
    limit = preprocessor.seq_length
    if limit == "longest":
        limit = min(preprocessor.max_length, positions)
    check_length(limit, positions)
    return replace(preprocessor.packer, max_length=limit)
