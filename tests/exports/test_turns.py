"""Many rows, a few at a time."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.exports.turns import ROWS, in_turns


@pytest.mark.parametrize("count", [0, 1, ROWS, ROWS + 1, 3 * ROWS - 1])
def test_in_turns(count):
    sizes = []

    @tf.function(autograph=False)
    def all_rows(x):
        def run(rows):
            tf.py_function(lambda size: sizes.append(int(size)), [tf.shape(rows["x"])[0]], [])
            return rows["x"] * 2.0

        return in_turns(run, {"x": x}, (None,))

    x = np.arange(count * 2, dtype="float32").reshape(count, 2)
    np.testing.assert_array_equal(all_rows(tf.constant(x)), x * 2)
    assert sum(sizes) == count
    assert max(sizes) <= ROWS
    assert len(sizes) == max(1, -(-count // ROWS))
