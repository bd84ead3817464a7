"""A model run on many rows, a few at a time: a long text takes more time, and no more memory."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

ROWS = 32


def in_turns(
    run: Callable[[dict[str, Any]], Any], rows: dict[str, "tf.Tensor"], shape: Sequence[int | None]
) -> "tf.Tensor":
    """What `run` gives for all rows, float32; `shape` is that of a row's, where it is known."""
    import tensorflow as tf

    count = tf.shape(next(iter(rows.values())))[0]
    turns = tf.maximum((count + ROWS - 1) // ROWS, 1)  # no rows take a turn too

    def turn(number: tf.Tensor, found: tf.TensorArray) -> tuple[Any, ...]:
        few = {name: values[number * ROWS : (number + 1) * ROWS] for name, values in rows.items()}
        return number + 1, found.write(number, run(few))

    found = tf.TensorArray(tf.float32, turns, infer_shape=False, element_shape=[None, *shape])
    _, found = tf.while_loop(lambda number, _: number < turns, turn, (0, found), parallel_iterations=1)
    return found.concat()
