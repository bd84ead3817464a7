"""Gradients of a large batch in the memory of a small one (GradCache, Gao et al. 2021), on TensorFlow."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def cached_gradients(
    model: Any, encoder: Any, rows: dict[str, Any], head: Callable[[Any], Any], size: int, loss_of: Callable[[Any], Any]
) -> tuple[Any, Any, list[Any]]:
    """The logits of a compiled model, their loss, and the gradients of its weights, as if computed at once.

    The encoder reads `size` rows at a time, and everything twice: the first pass keeps only its vectors. Then the
    gradient of the loss at the vectors is known, and the second pass continues it into the weights. Dropout draws the
    same in both passes, from seeds that differ between the parts of a batch.

    encoder: the part of the model that makes vectors [R, H] of the rows. head: makes logits of these. loss_of: the loss
    of all logits, as one number.
    """
    count = tf.shape(next(iter(rows.values())))[0]
    parts = (count + size - 1) // size
    weights = {id(weight) for weight in encoder.weights}
    seeds = [variable for variable in encoder.variables if id(variable) not in weights]
    before = [tf.identity(seed.value) for seed in seeds]

    def part(values: Any, number: Any) -> Any:
        return values[number * size : (number + 1) * size]

    def run(number: Any) -> Any:
        return encoder({name: part(values, number) for name, values in rows.items()}, training=True)

    def keep(number: Any, vectors: Any) -> Any:
        return number + 1, vectors.write(number, run(number))

    shape = [None, encoder.output.shape[-1]]
    vectors = tf.TensorArray(encoder.output.dtype, parts, element_shape=shape, infer_shape=False)
    vectors = tf.while_loop(lambda number, _: number < parts, keep, (0, vectors), parallel_iterations=1)[1]
    vectors = tf.ensure_shape(vectors.concat(), shape)  # [R, H]
    inner = {id(weight) for weight in encoder.trainable_variables}
    outer = [weight for weight in model.trainable_variables if id(weight) not in inner]
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        logits = head(vectors)
        loss = loss_of(logits)
        scaled = model.optimizer.scale_loss(loss)
    wanted, *of_outer = tape.gradient(scaled, [vectors, *(weight.value for weight in outer)])  # [R, H]
    for seed, value in zip(seeds, before, strict=True):
        seed.assign(value)
    variables = [variable.value for variable in encoder.trainable_variables]

    def add(number: Any, sums: Any) -> Any:
        with tf.GradientTape() as tape:
            found = run(number)
        gradients = tape.gradient(found, variables, output_gradients=part(wanted, number))
        return number + 1, [total + gradient for total, gradient in zip(sums, gradients, strict=True)]

    start = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
    of_inner = tf.while_loop(lambda number, _: number < parts, add, (0, start), parallel_iterations=1)[1]
    found = dict(zip(map(id, [*encoder.trainable_variables, *outer]), [*of_inner, *of_outer], strict=True))
    return logits, loss, [found[id(weight)] for weight in model.trainable_variables]
