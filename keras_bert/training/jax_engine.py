"""Trainer and Evaluator of JAX: steps on every device of a mesh, many in one call.

`orbit_engine.py` is the same for TensorFlow.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from keras import ops

from keras_bert.jax_devices import AXIS, SAME, SPLIT, STACKED, on_each_device, part_of_process, with_own_seeds
from keras_bert.training.jax_checkpoints import JaxCheckpoints
from keras_bert.training.measure import Measure, means
from keras_bert.training.strategy import check_batch_size

Checkpoints = JaxCheckpoints  # `train` finds it by the name that it has in both engines


class Trainer:
    """Trains a model with `measures` and `objective` (see `train`) on the batches of `distribute`.

    `train(n)` runs n steps and returns the means over them, with "first_bad": the first step whose loss or gradient was
    not finite, or -1.

    longest: the most steps of a call; a call of more compiles the program again.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        dataset: Any,
        step: Any,
        *,
        strategy: Any,
        accumulate: int,
        clip_norm: float,
        longest: int = 1,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.step = step
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.scales_loss = hasattr(optimizer, "dynamic_scale")
        self.mesh = strategy.device_mesh.backend_mesh
        self.batches = dataset.as_numpy_iterator()
        self.longest = longest
        self.variables = [model.trainable_variables, model.non_trainable_variables, optimizer.variables]
        self.compiled_loop = jax.jit(
            on_each_device(self.replica_loop, self.mesh, (SAME, STACKED, SAME)), donate_argnums=0
        )

    # === Many steps ===

    def train(self, num_steps: int) -> dict[str, float]:
        batches = self.next_batches(num_steps)
        # The first values are not on the mesh if it has one device. The program would be compiled once more for them.
        values = jax.device_put(tuple(map(_values, self.variables)), NamedSharding(self.mesh, SAME))
        state, sums, first_bad = self.compiled_loop(values, batches, np.int32(num_steps))
        for some, values in zip(self.variables, state, strict=True):
            for variable, value in zip(some, values, strict=True):
                variable.assign(value)
        begin, first_bad = int(self.step.numpy()), int(first_bad)
        self.step.assign(begin + num_steps)
        return {**means(self._names, sums), "first_bad": begin + first_bad if first_bad >= 0 else -1}

    def next_batches(self, num_steps: int) -> Any:
        """The next batches on the devices, each array [steps, B, ...], filled up so that all loops have one shape."""
        self.longest = max(self.longest, num_steps)
        batches = [next(self.batches) for _ in range(num_steps)]
        batches += batches[-1:] * (self.longest - num_steps)
        return _on_devices(jax.tree.map(lambda *steps: np.stack(steps), *batches), self.mesh, STACKED)

    def replica_loop(self, state: Any, batches: Any, num_steps: Any) -> tuple[Any, Any, Any]:
        """The state after `num_steps` steps, the sums of their measures, and the first bad one, from 0, or -1.

        `num_steps` is no part of the program, as it would be of a `lax.scan`: that would compile a program for each
        length of a loop, and each might round differently.
        """
        step = jax.jit(self.replica_step)

        def add(index: Any, before: Any) -> Any:
            state, sums, first_bad = before
            state, measured, finite = step(state, jax.tree.map(lambda x: x[index], batches))
            return state, sums + measured, jnp.where((first_bad < 0) & ~finite, index, first_bad)

        measured = jax.eval_shape(step, state, jax.tree.map(lambda x: x[0], batches))[1]
        return jax.lax.fori_loop(0, num_steps, add, (state, jnp.zeros_like(measured), jnp.int32(-1)))

    # === One step, on each device ===

    def replica_step(self, state: Any, batch: Any) -> tuple[Any, Any, Any]:
        weights, others, moments = state
        others = with_own_seeds(others)
        # Only the counts of this pass are used. They depend on the data, not on the model, which JAX leaves out.
        measures, _ = self._measures(weights, others, batch, training=False)
        counts = jax.lax.psum({name: measure.count for name, measure in measures.items()}, AXIS)

        with keras.StatelessScope(list(zip(self.optimizer.variables, moments, strict=True))):
            scale = self.optimizer.scale_loss(1.0)
        gradients, totals, others = self._accumulated(weights, others, batch, counts, scale)
        gradients, totals = jax.lax.psum((gradients, totals), AXIS)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients)) / scale
        share = jnp.where(jnp.isfinite(norm), self.clip_norm / jnp.maximum(norm, self.clip_norm), jnp.nan)
        clipped = [gradient * share for gradient in gradients]
        weights, moments = self.optimizer.stateless_apply(moments, clipped, weights)
        others = with_own_seeds(others, -1)

        sums = {name: Measure(totals[name], counts[name]) for name in measures}
        sums["gradient_norm"] = Measure(norm, 1.0)
        tokens = jnp.count_nonzero(batch[0]["input_mask"]).astype("float32")
        sums["tokens"] = Measure(jax.lax.psum(tokens, AXIS), 1.0)
        self._names = list(sums)
        finite = jnp.isfinite(jnp.stack([totals[name] for name in self.model.objective])).all()
        if not self.scales_loss:  # an optimizer that scales the loss checks gradients itself, and skips bad steps
            finite &= jnp.isfinite(norm)
        return (weights, others, moments), _stack(sums), finite

    def _accumulated(self, weights: Any, others: Any, batch: Any, counts: Any, scale: Any) -> tuple[Any, Any, Any]:
        """The gradients and totals of this device's batch, summed over its parts, and the seeds after it."""
        if self.accumulate == 1:
            return self._gradients(weights, others, batch, counts, scale)
        parts = jax.tree.map(lambda x: x.reshape(self.accumulate, -1, *x.shape[1:]), batch)  # each [accumulate, B, ...]

        def add(sums: Any, part: Any) -> tuple[Any, None]:
            *more, others = self._gradients(weights, sums[2], part, counts, scale)
            return (*jax.tree.map(jnp.add, list(sums[:2]), more), others), None

        zeros = jax.tree.map(jnp.zeros_like, (weights, counts))
        return jax.lax.scan(add, (*zeros, others), parts)[0]

    def _gradients(self, weights: Any, others: Any, batch: Any, counts: Any, scale: Any) -> tuple[Any, Any, Any]:
        """This part's share of the gradients of the mean loss over the global batch, its totals, and the seeds."""

        def loss(weights: Any) -> tuple[Any, Any]:
            measures, after = self._measures(weights, others, batch, training=True)
            shares = [ops.divide_no_nan(measures[name].total, counts[name]) for name in self.model.objective]
            return sum(shares) * scale, ({name: measure.total for name, measure in measures.items()}, after)

        gradients, (totals, others) = jax.grad(loss, has_aux=True)(weights)
        return gradients, totals, others

    def _measures(self, weights: Any, others: Any, batch: Any, training: bool) -> tuple[dict[str, Measure], list[Any]]:
        """The measures of a batch, and the seeds after it."""
        variables = [*self.variables[0], *self.variables[1]]
        with keras.StatelessScope(list(zip(variables, [*weights, *others], strict=True))) as scope:
            measures = self.model.measures(batch, training=training)
        return measures, [scope.get_current_value(variable) for variable in self.variables[1]]


class Evaluator:
    """Evaluates a model with `measures` on the batches of `distribute`."""

    def __init__(self, model: Any, dataset: Any, *, strategy: Any) -> None:
        self.model = model
        self.dataset = dataset
        self.mesh = strategy.device_mesh.backend_mesh
        self.compiled_step = jax.jit(on_each_device(self.replica_step, self.mesh, (SAME, SPLIT)))

    def evaluate(self) -> dict[str, float]:
        values = _values(self.model.variables)
        batches = (_on_devices(batch, self.mesh, SPLIT) for batch in self.dataset.as_numpy_iterator())
        sums = sum(np.asarray(self.compiled_step(values, batch)) for batch in batches)
        return means(self._names, sums)

    def replica_step(self, values: Any, batch: Any) -> Any:
        with keras.StatelessScope(list(zip(self.model.variables, values, strict=True))):
            measures = self.model.measures(batch, training=False)
        self._names = list(measures)
        return jax.lax.psum(_stack(measures), AXIS)


# === Devices ===


def distribute(batches: Any, strategy: Any, batch_size: int, start: int = 0) -> Any:
    """The batches from step `start` on, as a tf.data.Dataset of this process's rows of each global batch."""
    check_batch_size(batch_size, strategy)
    return batches(start, part_of_process(strategy.device_mesh.backend_mesh))


def _on_devices(rows: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    """The global batch, of which each process gives its rows."""
    sharding = NamedSharding(mesh, spec)
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, x), rows)


def check_scope(variables: Any, strategy: Any) -> None:
    """Nothing to check: JAX copies variables from outside the scope to the devices."""


def gathering(strategy: Any) -> Callable[..., np.ndarray]:
    """A function: what each process gives it, [processes, numbers]. All must call it, or they block each other."""
    if jax.process_count() == 1:
        return lambda *numbers: np.array([numbers])
    return lambda *numbers: multihost_utils.process_allgather(np.array(numbers, "float32"))


def _values(variables: Any) -> list[Any]:
    return [variable.value for variable in variables]


def _stack(measures: dict[str, Measure]) -> Any:
    return jnp.stack([jnp.stack([*map(jnp.float32, measure)]) for measure in measures.values()])  # [measures, 2]
