"""The batches of `fit` on several devices of JAX: all devices get equally many rows, and each process takes its own."""

from typing import Any

import keras

from keras_bert.jax_devices import part_of_process
from keras_bert.text.tensors import arrays, tf


def split_batches(batches: Any) -> Any:
    """The rows of this process of each batch `(x, y, weight)`, in a tf.data or a PyDataset, as `batches` is.

    A batch that the devices cannot split evenly is filled up with copies of its last row, whose weight is 0.
    """
    chosen = keras.distribution.distribution()
    devices, (own, processes) = chosen.num_model_replicas, part_of_process(chosen.device_mesh.backend_mesh)

    def split(x: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
        count = tf.shape(weight)[0]
        each = (count + devices - 1) // devices * (devices // processes)  # rows of a process
        number = own * each + tf.range(each)
        index = tf.minimum(number, count - 1)
        real = tf.cast(number < count, weight.dtype)
        x = {name: _examples(value, index, count) for name, value in x.items()}
        return x, tf.gather(y, index), tf.gather(weight, index) * tf.reshape(real, [-1] + [1] * (len(weight.shape) - 1))

    return SplitBatches(batches, split) if isinstance(batches, keras.utils.PyDataset) else batches.map(split)


def _examples(rows: Any, index: Any, count: Any) -> Any:
    """The rows of these of `count` examples, all of which have equally many."""
    of_each = tf.shape(rows)[0] // count
    return tf.gather(rows, tf.reshape(index[:, None] * of_each + tf.range(of_each), [-1]))


class SplitBatches(keras.utils.PyDataset):
    """The batches of a PyDataset, each split by a function."""

    def __init__(self, batches: Any, split: Any) -> None:
        super().__init__()
        self._batches = batches
        self._split = split

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, number: int) -> Any:
        with arrays():
            return self._split(*self._batches[number])
