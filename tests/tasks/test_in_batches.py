"""Many rows, one small batch after another."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks.decoding.in_batches import BATCH_SIZE, in_batches


@pytest.mark.parametrize("count", [0, 1, BATCH_SIZE, BATCH_SIZE + 1, 3 * BATCH_SIZE - 1])
def test_in_batches(count):
    sizes = []

    @tf.function(autograph=False)
    def all_rows(x):
        def run(rows):
            tf.py_function(lambda size: sizes.append(int(size)), [tf.shape(rows["x"])[0]], [])
            return rows["x"] * 2.0

        return in_batches(run, {"x": x}, (None,))

    x = np.arange(count * 2, dtype="float32").reshape(count, 2)
    np.testing.assert_array_equal(all_rows(tf.constant(x)), x * 2)
    assert sum(sizes) == count
    assert max(sizes) <= BATCH_SIZE
    assert len(sizes) == max(1, -(-count // BATCH_SIZE))
