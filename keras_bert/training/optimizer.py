"""AdamW as BERT is trained with it."""

from typing import Any

import keras

from keras_bert.training.policy import check_trainable

NO_DECAY = ("bias", "gamma", "beta")  # names of the weights that never decay: biases and layer norms


@keras.saving.register_keras_serializable("keras_bert")
class AdamW(keras.optimizers.AdamW):
    """Keras's AdamW with BERT's values: weight decay 0.01 on all but biases and norms, epsilon 1e-6.

    On TensorFlow moments and weight are updated by one op in one pass over memory, where Keras's takes a dozen.

    >>> optimizer = AdamW(3e-5)
    >>> float(optimizer.weight_decay)
    0.01
    """

    def __init__(
        self, learning_rate: Any = 3e-5, weight_decay: float = 0.01, epsilon: float = 1e-6, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, epsilon=epsilon, **kwargs)
        self.exclude_from_weight_decay(var_names=list(NO_DECAY))

    def build(self, variables: Any) -> None:
        check_trainable(variables)
        super().build(variables)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if self.amsgrad or keras.backend.backend() != "tensorflow":
            super().update_step(gradient, variable, learning_rate)
            return
        import tensorflow as tf

        index, dtype = self._get_variable_index(variable), variable.dtype
        beta_1, beta_2 = tf.constant(self.beta_1, dtype), tf.constant(self.beta_2, dtype)
        step = tf.cast(self.iterations + 1, dtype)
        tf.raw_ops.ResourceApplyAdam(  # the same formula as Keras's
            var=_handle(variable),
            m=_handle(self._momentums[index]),
            v=_handle(self._velocities[index]),
            beta1_power=tf.pow(beta_1, step),
            beta2_power=tf.pow(beta_2, step),
            lr=tf.cast(learning_rate, dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.constant(self.epsilon, dtype),
            grad=tf.cast(gradient, dtype),
        )


def _handle(variable: Any) -> Any:
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle
