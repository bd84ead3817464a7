"""A model run on many rows, one small batch after another: a long text takes more time, but not more memory."""

from collections.abc import Callable, Sequence
from typing import Any

from keras_bert.text.tensors import tf, uses_tensorflow

BATCH_SIZE = 32


def in_batches(
    run: Callable[[dict[str, Any]], Any], rows: dict[str, "tf.Tensor"], shape: Sequence[int | None]
) -> "tf.Tensor":
    """The float32 result of `run` for all rows; `shape` is the shape of one row's result, None where it varies."""
    count = tf.shape(next(iter(rows.values())))[0]
    if not uses_tensorflow():
        starts = range(0, max(int(count), 1), BATCH_SIZE)
        return tf.concat(
            [run({name: values[start : start + BATCH_SIZE] for name, values in rows.items()}) for start in starts], 0
        )
    batches = tf.maximum((count + BATCH_SIZE - 1) // BATCH_SIZE, 1)  # no rows at all are one empty batch

    def add_batch(number: tf.Tensor, results: tf.TensorArray) -> tuple[Any, ...]:
        batch = {name: values[number * BATCH_SIZE : (number + 1) * BATCH_SIZE] for name, values in rows.items()}
        return number + 1, results.write(number, run(batch))

    results = tf.TensorArray(tf.float32, batches, infer_shape=False, element_shape=[None, *shape])
    _, results = tf.while_loop(lambda number, _: number < batches, add_batch, (0, results), parallel_iterations=1)
    return results.concat()
