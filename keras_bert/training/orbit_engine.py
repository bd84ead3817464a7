"""Trainer and Evaluator of TensorFlow: steps on every replica of a strategy, many in one graph, with Orbit.

`jax_engine.py` is the same for JAX.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import orbit
import tensorflow as tf
from orbit.utils import loop_fns

from keras_bert.compat import summed_gradients
from keras_bert.prefetching import prefetched
from keras_bert.training.all_replicas import of_all_replicas
from keras_bert.training.measure import Measure, means
from keras_bert.training.strategy import check_batch_size
from keras_bert.training.tensorflow_checkpoints import TensorFlowCheckpoints, native

Checkpoints = TensorFlowCheckpoints  # `train` finds it by the name that it has in both engines


class Trainer(orbit.StandardTrainer):
    """Trains a model with `measures` and `objective` (see `train`) on a distributed dataset.

    `train(n)` runs n steps and returns the means over them, with "first_bad": the first step whose loss or gradient was
    not finite, or -1.

    longest: not used here, where one graph runs any number of steps.
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
        super().__init__(dataset)
        self.model = model
        self.optimizer = optimizer
        self.step = native(step)
        self.strategy = strategy
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        self.scales_loss = hasattr(optimizer, "dynamic_scale")

    # === Many steps ===

    def train(self, num_steps: Any) -> Any:
        with summed_gradients(self.optimizer):  # `replica_step` sums them before it clips them
            return super().train(tf.convert_to_tensor(num_steps))

    def create_train_loop_fn(self) -> Any:
        loop = tf.function(loop_fns.create_tf_while_loop_fn_with_state(self.train_step))
        start = (tf.zeros([1, 1]), tf.constant(-1, tf.int64))

        def add(state: Any, outputs: Any) -> Any:
            (sums, first_bad), (measured, step, finite) = state, outputs
            return sums + measured, tf.where((first_bad < 0) & ~finite, step, first_bad)

        def run(iterator: Any, num_steps: Any) -> None:
            self._sums, self._first_bad = loop(iterator, num_steps, start, add)

        return run

    def train_loop_end(self) -> dict[str, float]:
        return {**means(self._names, self._sums), "first_bad": int(self._first_bad)}

    def train_step(self, iterator: Any) -> Any:
        step = self.step.read_value()
        outputs = self.strategy.run(self.replica_step, args=(next(iterator),))
        measured, finite = (self.strategy.experimental_local_results(x)[0] for x in outputs)  # the same on all
        self.step.assign_add(1)
        return measured, step, finite

    # === One step, on each replica ===

    @tf.autograph.experimental.do_not_convert  # as Keras does in `fit`: converting takes over a second
    def replica_step(self, batch: Any) -> tuple[Any, Any]:
        replicas = tf.distribute.get_replica_context()
        # Only the counts of this pass are used. They depend on the data, not on the model, which TensorFlow leaves out.
        counts = {name: measure.count for name, measure in self.model.measures(batch, training=False).items()}
        counts = replicas.all_reduce("sum", counts)

        gradients, totals = self._accumulated(batch, counts)
        gradients, totals = replicas.all_reduce("sum", (gradients, totals))
        scale = self.optimizer.dynamic_scale.value if self.scales_loss else 1.0
        gradients, norm = tf.clip_by_global_norm(gradients, self.clip_norm * scale)
        self.optimizer.apply(gradients, self.model.trainable_variables)

        measures = {name: Measure(totals[name], counts[name]) for name in counts}
        measures["gradient_norm"] = Measure(norm / scale, 1.0)
        tokens = tf.cast(tf.math.count_nonzero(batch[0]["input_mask"]), "float32")
        measures["tokens"] = Measure(replicas.all_reduce("sum", tokens), 1.0)
        self._names = list(measures)
        finite = tf.reduce_all(tf.math.is_finite([totals[name] for name in self.model.objective]))
        if not self.scales_loss:  # an optimizer that scales the loss checks gradients itself, and skips bad steps
            finite &= tf.math.is_finite(norm)
        return _stack(measures), finite

    def _accumulated(self, batch: Any, counts: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The gradients and totals of this replica's batch, summed over its parts."""
        if self.accumulate == 1:
            return self._gradients(batch, counts)
        parts = tf.nest.map_structure(self._in_parts, batch)  # each [accumulate, B, ...]

        def add(index: Any, sums: Any) -> Any:
            more = self._gradients(tf.nest.map_structure(lambda x: x[index], parts), counts)
            return index + 1, tf.nest.map_structure(tf.add, sums, more)

        gradients = [tf.zeros(variable.shape) for variable in self.model.trainable_variables]
        start = gradients, {name: tf.zeros([]) for name in counts}
        return tf.while_loop(lambda index, _: index < self.accumulate, add, (0, start))[1]

    def _gradients(self, batch: Any, counts: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """This part's totals, and its share of the gradients of the mean loss over the global batch."""
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            measures = self.model.measures(batch, training=True)
            loss = tf.add_n([tf.math.divide_no_nan(measures[x].total, counts[x]) for x in self.model.objective])
            loss = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        if idle := [x.path for x, gradient in zip(variables, gradients, strict=True) if gradient is None]:
            raise ValueError(
                "The loss does not depend on all trainable weights. Freeze the weights that it does not use. "
                f"Received: no gradient for {idle}"
            )
        return [tf.convert_to_tensor(gradient) for gradient in gradients], {
            name: measure.total for name, measure in measures.items()
        }

    def _in_parts(self, x: Any) -> Any:
        return tf.reshape(x, tf.concat([[self.accumulate, -1], tf.shape(x)[1:]], 0))


class Evaluator(orbit.StandardEvaluator):
    """Evaluates a model with `measures` on a distributed dataset."""

    def __init__(self, model: Any, dataset: Any, *, strategy: Any) -> None:
        super().__init__(dataset)
        self.model = model
        self.strategy = strategy

    def evaluate(self) -> Any:
        return super().evaluate(tf.constant(-1))

    def eval_begin(self) -> Any:
        return 0.0

    def eval_step(self, iterator: Any) -> Any:
        sums = self.strategy.run(self.replica_step, args=(next(iterator),))
        return self.strategy.experimental_local_results(sums)[0]  # the same on all

    def eval_reduce(self, state: Any, outputs: Any) -> Any:
        return state + outputs

    def eval_end(self, state: Any) -> dict[str, float]:
        return means(self._names, state)

    @tf.autograph.experimental.do_not_convert  # as Keras does in `fit`: converting takes over a second
    def replica_step(self, batch: Any) -> Any:
        measures = self.model.measures(batch, training=False)
        self._names = list(measures)
        return tf.distribute.get_replica_context().all_reduce("sum", _stack(measures))


# === Devices ===


def distribute(batches: Any, strategy: Any, batch_size: int, start: int = 0) -> Any:
    """The batches from step `start` on, in which each replica has its rows of each global batch."""
    check_batch_size(batch_size, strategy)

    def of_worker(context: Any) -> Any:
        dataset = batches(start, (context.input_pipeline_id, context.num_input_pipelines))
        if context.num_replicas_in_sync > context.num_input_pipelines:
            share = batch_size // context.num_replicas_in_sync
            dataset = dataset.rebatch(share, drop_remainder=True)  # a TPU needs static shapes
        return prefetched(dataset)

    return strategy.distribute_datasets_from_function(of_worker)


def check_scope(variables: Iterable[Any], strategy: Any) -> None:
    """Raise an error for a variable that was built outside the strategy's scope."""
    for variable in variables:
        if not strategy.extended.variable_created_in_scope(native(variable)):
            raise ValueError(
                f"{variable.path} was not built in the strategy's scope. Build the model and the optimizer under "
                f"`with strategy.scope():`. Received: {variable.path}"
            )


def gathering(strategy: Any) -> Callable[..., np.ndarray]:
    """A function: what each worker gives it, [workers, numbers]. All must call it, or they block each other."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return lambda *numbers: np.array([numbers])
    gathered = tf.function(lambda own: strategy.run(lambda: of_all_replicas(own[None])[0]))

    def of_all_workers(*numbers: float) -> np.ndarray:
        of_replicas = strategy.experimental_local_results(gathered(tf.constant(numbers, "float32")))[0].numpy()
        return of_replicas[:: len(strategy.extended.worker_devices)]  # those of one worker are the same

    return of_all_workers


def _stack(measures: dict[str, Measure]) -> Any:
    return tf.stack([tf.stack(measure) for measure in measures.values()])  # [measures, 2]
