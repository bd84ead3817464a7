"""Evaluator: the means of a model's measures over a dataset, on Orbit's runner."""

from typing import Any

import orbit
import tensorflow as tf


class Evaluator(orbit.StandardEvaluator):
    """Evaluates a model that has `measures` on a distributed dataset, whole or its first batches."""

    def __init__(self, model: Any, dataset: Any, *, strategy: Any) -> None:
        super().__init__(dataset)
        self.model = model
        self.strategy = strategy

    def eval_begin(self) -> Any:
        return 0.0

    def eval_step(self, iterator: Any) -> Any:
        sums = self.strategy.run(self._replica_step, args=(next(iterator),))
        return self.strategy.experimental_local_results(sums)[0]  # alike on all

    def eval_reduce(self, state: Any, outputs: Any) -> Any:
        return state + outputs

    def eval_end(self, state: Any) -> dict[str, float]:
        means = tf.math.divide_no_nan(state[:, 0], state[:, 1])
        return dict(zip(self._names, means.numpy().tolist(), strict=True))

    def _replica_step(self, batch: Any) -> Any:
        measures = self.model.measures(batch, training=False)
        self._names = list(measures)
        sums = tf.stack([tf.stack(measure) for measure in measures.values()])
        return tf.distribute.get_replica_context().all_reduce("sum", sums)
