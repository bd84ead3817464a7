"""LabelledRows: the tokenized rows of a task, and the batches it is trained and validated on."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import keras
import numpy as np

from keras_bert import kernels
from keras_bert.checks import check_length
from keras_bert.prefetching import prefetched
from keras_bert.text.numpy_ragged import RaggedTensor
from keras_bert.text.packing import Packer, place
from keras_bert.text.shared_rows import SHARED_ROWS, WORTH, SharedRows, alike, shares_rows
from keras_bert.text.tensors import arrays, tf, uses_tensorflow
from keras_bert.text.tokenized_rows import TokenizedRows

logger = logging.getLogger("keras_bert")

GROUP = 4  # batches that are sorted by length together where padding costs time; few, so that they stay mixed


@dataclass(frozen=True)
class LabelledRows(TokenizedRows):
    """Tokenized rows with what is to be learned from them; without these, a task only predicts.

    targets, weights: dense [n, ...], or ragged [R, (pieces)] where each piece has its own.
    decoding: what the task's `decode` needs beside the logits, such as the texts and the places of their pieces.
    others: further inputs of the model by name, each [n, ...].
    """

    targets: Any = None
    weights: Any = None
    decoding: Any = None
    others: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def sample(self) -> "LabelledRows":
        """Rows that have every target; those of a stream are fewer."""
        return self

    def batch(self, index: Any, width: int | str = "longest") -> tuple[Any, Any, Any]:
        """The examples with these indices, int32 [B], as Keras trains on them: inputs, targets and weights.

        An index of -1 is a filler: some example, with weight 0.
        """
        with tf.device("CPU:0"):
            real, index = tf.cast(index >= 0, tf.float32), tf.maximum(index, 0)
            x = self.inputs(index, width)
            shape = tf.shape(x["input_mask"])
            targets, weights = self.targets_of(index, shape)  # each [B] or [B, ...]
            return x, targets, weights * tf.reshape(real, [-1] + [1] * (len(weights.shape) - 1))

    def batch_to_split(self, index: Any, width: int) -> tuple[Any, Any, Any]:
        """The same for several devices, which split all of it by its first axis."""
        return self.batch(index, width)

    def inputs(self, index: Any, width: int | str = "longest") -> dict[str, Any]:
        """The model's inputs for the examples with these indices."""
        with tf.device("CPU:0"):
            return self.text_inputs(index, width) | {name: tf.gather(one, index) for name, one in self.others.items()}

    def text_inputs(self, index: Any, width: int | str) -> dict[str, Any]:
        """The inputs that hold the texts."""
        return self.pack(index, width)

    def targets_of(self, index: Any, shape: Any) -> tuple[Any, Any]:
        """The targets and the weights of these examples, whose inputs have this shape."""
        return _take(self.targets, index, shape), _take(self.weights, index, shape)

    def batches(self, batch_size: int) -> Any:
        """The batches of all examples, in their order: a tf.data, or without TensorFlow Text a PyDataset."""
        index = filled(np.arange(len(self)), batch_size)
        if not uses_tensorflow():
            return RowBatches(self, lambda epoch: index, len(index))
        with tf.device("CPU:0"):
            dataset = tf.data.Dataset.from_tensor_slices(index).map(_untranslated(_without_filling))
            return prefetched(_batched(dataset, self._as_tensors().batch))

    def shuffled(self, batch_size: int, *, seed: int, epoch: Any, start: Any = 0, share: bool = True) -> Any:
        """One epoch's batches, whose order is a function of the seed and of the variable `epoch`; as `batches`.

        start: the variable with the number of the first batch; those before it come last. share: where texts can share
            rows and there is enough padding, return a PyDataset whose batches share rows.
        """
        steps = -(-len(self) // batch_size)
        if share and (shared := self.shared_in_fit(batch_size, seed)):
            rows = self.as_arrays()
            order = partial(rows.mixed_alike, batch_size, seed)
            return RowBatches(rows, order, steps, epoch, start, shared)
        by_length = not kernels.drops_padding()
        if not uses_tensorflow():
            return RowBatches(
                self, lambda number: self._mixed(batch_size, seed, number, by_length), steps, epoch, start
            )

        def mixed(_: Any) -> Any:
            order = self._mixed(batch_size, seed, epoch, by_length)
            return tf.data.Dataset.from_tensor_slices(tf.roll(order, -tf.cast(start, tf.int32), axis=0))

        with tf.device("CPU:0"):
            dataset = tf.data.Dataset.range(1).flat_map(_untranslated(mixed))
            dataset = _batched(dataset.map(_untranslated(_without_filling)), self._as_tensors().batch)
            return prefetched(dataset.apply(tf.data.experimental.assert_cardinality(steps)))

    def static(self, batch_size: int, part: tuple[int, int], *, seed: int | None = None, first_epoch: int = 0) -> Any:
        """A tf.data of batches of one shape, of which `part` (i, n) is the i-th of n equal parts.

        Fillers in the last batch have weight 0. With a seed, epochs are shuffled and never end; without, each example
        comes once.
        """
        rows, examples = batch_size // part[1], self._as_tensors()
        with tf.device("CPU:0"):
            if seed is None:
                dataset = tf.data.Dataset.from_tensor_slices(filled(np.arange(len(self)), batch_size))
            else:
                epochs = tf.data.Dataset.range(first_epoch, np.iinfo("int32").max)

                def mixed(epoch: Any) -> Any:
                    return tf.data.Dataset.from_tensor_slices(self._mixed(batch_size, seed, epoch, by_length=False))

                dataset = epochs.flat_map(_untranslated(mixed))

            def batch(index: Any) -> Any:
                found = examples.batch_to_split(index[part[0] * rows : (part[0] + 1) * rows], self.widest)
                return tf.nest.map_structure(lambda x: tf.ensure_shape(x, (rows, *x.shape[1:])), found)

            return _batched(dataset, batch)

    def _as_tensors(self) -> "LabelledRows":
        """The same rows for the graph of a tf.data. It would get a copy of numpy's arrays, and is limited to 2 GB."""
        targets, weights = _tensor(self.targets), _tensor(self.weights)
        others = {name: _tensor(values) for name, values in self.others.items()}
        return replace(self, targets=targets, weights=weights, others=others)

    def _mixed(self, batch_size: int, seed: int, epoch: Any, by_length: bool) -> Any:
        return mixed_batches(len(self), batch_size, seed, epoch, self.lengths if by_length else None)

    # === Shared rows ===

    def shared_in_fit(self, batch_size: int, seed: int) -> SharedRows | None:
        """How the rows of the batches of `mixed_alike` are shared, if that saves enough positions."""
        if keras.distribution.distribution() is not None:
            logger.info("Texts do not share rows, because several devices split each batch between texts.")
        if not shares_rows():
            return None
        lengths = [self.row_lengths[index].ravel() for index in self.mixed_alike(batch_size, seed, 0)]
        shared = SharedRows.of(lengths)
        with arrays():
            padded = sum(self._padded(_without_filling(index)) for index in self._mixed(batch_size, seed, 0, True))
        return shared if WORTH * sum(map(shared.positions, lengths)) < padded else None

    def mixed_alike(self, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
        """The indices of the batches of an epoch, shuffled, each with short and long examples."""
        with arrays():
            within, between = _seeds(seed, epoch)
            order = np.argsort(tf.random.stateless_uniform([len(self)], within), kind="stable")
            noise = tf.random.stateless_uniform([len(self)], between)
        return alike(order, self.row_lengths.sum(1), batch_size, noise)

    def as_arrays(self) -> "LabelledRows":
        """The same rows in numpy, which packs a batch in less time than TensorFlow outside of a graph."""
        segments = [_array(segment) for segment in self.segments]
        return replace(self, segments=segments, targets=_array(self.targets), weights=_array(self.weights))


class RowBatches(keras.utils.PyDataset):
    """The batches of rows in the order that a function of the epoch returns, as indices of each batch.

    shared: how the rows of the batches are shared, if they are; the rows then are numpy's.
    """

    def __init__(
        self,
        rows: Any,
        order: Callable[[int], Any],
        steps: int,
        epoch: Any = 0,
        start: Any = 0,
        shared: SharedRows | None = None,
    ) -> None:
        super().__init__()
        self._rows = rows
        self._order = lru_cache(1)(order)
        # The epoch that is read. With steps_per_epoch, the next epoch of Keras begins within it.
        self._read: int | None = None
        self._steps = steps
        self._epoch = epoch
        self._start = start
        self.shared = shared

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, number: int) -> Any:
        if number == 0 or self._read is None:
            self._read = int(self._epoch)
        number = (number + int(self._start)) % self._steps
        index = _without_filling(self._order(self._read)[number])
        if self.shared:
            with arrays():
                x, y, weight = self._rows.batch(index, self._rows.widest)
            lengths = x["input_mask"].sum(-1).ravel()
            return {**x, SHARED_ROWS: self.shared.sources(lengths, self._rows.widest)}, y, weight
        # On TensorFlow, Keras expects later batches to be no longer than the first two, and padding is not computed.
        width = self._rows.widest if keras.backend.backend() == "tensorflow" else "longest"
        return self._rows.batch(index, width)


def mixed_batches(count: int, batch_size: int, seed: int, epoch: Any, lengths: Any = None) -> Any:
    """The indices of the batches of an epoch [steps, B], shuffled; by lengths, sorted within groups of batches."""
    steps = -(-count // batch_size)
    within, between = _seeds(seed, epoch)
    index = tf.argsort(tf.random.stateless_uniform([count], within))  # [n]
    if lengths is not None:
        group = tf.range(count, dtype=tf.int64) // (GROUP * batch_size)
        lengths = tf.gather(tf.constant(lengths, tf.int64), index)
        index = tf.gather(index, tf.argsort(group * (1 << 16) - lengths, stable=True))
    index = tf.pad(index, [[0, steps * batch_size - count]], constant_values=-1)
    index = tf.reshape(index, (steps, batch_size))  # [steps, B]
    if lengths is not None:
        index = tf.gather(index, tf.argsort(tf.random.stateless_uniform([steps], between)))
    return index


def _batched(dataset: Any, batch: Callable) -> Any:
    """The batches of a tf.data of indices, several of which are made at a time."""
    return dataset.map(_untranslated(batch), num_parallel_calls=tf.data.AUTOTUNE)


def _untranslated(function: Callable) -> Callable:
    """The function as it is, for a graph. AutoGraph would translate it, which takes seconds.

    It must not branch or loop on the values of tensors.
    """
    return tf.autograph.experimental.do_not_convert(function)


def filled(order: np.ndarray, batch_size: int) -> np.ndarray:
    """Indices in batches, [steps, B], with -1 as filler in the last one."""
    missing = -len(order) % batch_size
    return np.pad(order, (0, missing), constant_values=-1).reshape(-1, batch_size).astype("int32")


def _seeds(seed: int, epoch: Any) -> Any:
    """Two seeds for the order of an epoch."""
    first = tf.cast(tf.constant(seed, tf.int64), tf.int32)
    return tf.unstack(tf.random.split(tf.stack([first, tf.cast(epoch, tf.int32)]), 2))


def _tensor(x: Any) -> Any:
    """An array in a tensor on the CPU."""
    if not isinstance(x, np.ndarray):
        return x
    with tf.device("CPU:0"):
        return tf.convert_to_tensor(x)


def _array(x: Any) -> Any:
    """A tensor in numpy, if there is one."""
    if hasattr(x, "row_splits"):
        return RaggedTensor.from_row_splits(x.values, x.row_splits)
    return None if x is None else np.asarray(x)


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
