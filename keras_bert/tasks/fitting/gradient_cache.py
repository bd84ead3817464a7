"""Gradients of a large batch in the memory of a small one (GradCache, Gao et al. 2021), on TensorFlow."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def cached_gradients(model: Any, x: dict[str, Any], size: int, loss_of: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
    """The outputs [R, H] for the rows of `x`, and the gradients of their loss, as if computed at once.

    The model reads `size` rows at a time, and everything twice: the first pass keeps only the outputs. Then the
    gradient of the loss at the outputs is known, and the second pass continues it into the weights. Dropout draws the
    same in both passes, from seeds that differ between the parts of a batch.

    loss_of: the loss of all outputs, as one number.
    """
    rows = tf.shape(next(iter(x.values())))[0]
    parts = (rows + size - 1) // size
    weights = {id(weight) for weight in model.weights}
    seeds = [variable for variable in model.variables if id(variable) not in weights]
    before = [tf.identity(seed.value) for seed in seeds]

    def part(values: Any, number: Any) -> Any:
        return values[number * size : (number + 1) * size]

    def run(number: Any) -> Any:
        return model({name: part(values, number) for name, values in x.items()}, training=True)

    def keep(number: Any, outputs: Any) -> Any:
        return number + 1, outputs.write(number, run(number))

    outputs = tf.TensorArray("float32", parts, element_shape=[None, model.output.shape[-1]], infer_shape=False)
    outputs = tf.while_loop(lambda number, _: number < parts, keep, (0, outputs), parallel_iterations=1)[1]
    outputs = tf.ensure_shape(outputs.concat(), [None, model.output.shape[-1]])  # [R, H]
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = loss_of(outputs)
    wanted = tape.gradient(loss, outputs)  # [R, H]
    for seed, value in zip(seeds, before, strict=True):
        seed.assign(value)
    variables = [variable.value for variable in model.trainable_variables]

    def add(number: Any, sums: Any) -> Any:
        with tf.GradientTape() as tape:
            found = run(number)
        gradients = tape.gradient(found, variables, output_gradients=part(wanted, number))
        return number + 1, [total + gradient for total, gradient in zip(sums, gradients, strict=True)]

    start = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
    gradients = tf.while_loop(lambda number, _: number < parts, add, (0, start), parallel_iterations=1)[1]
    return outputs, gradients
