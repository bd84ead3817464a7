"""AdamW and Lamb with BERT's settings, and the schedule of the learning rate."""

import re
from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from keras_bert.checks import check_share
from keras_bert.compat import CountsUpdates, WithoutSeparateDecay, decays, moments_of, number_of, set_untracked
from keras_bert.lazy import tf
from keras_bert.policy import check_trainable

NO_DECAY = ("bias", "gamma", "beta")  # names of the weights without decay: biases and layer norms
BLOCK = re.compile(r"(?:^|/)layer_(\d+)_")
EMBEDDINGS = re.compile(r"(?:^|/)(?:(?:word|position|type)_embeddings|embeddings_norm)/")


@keras.saving.register_keras_serializable("keras_bert")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Up to `peak` in the first `warmup_steps`, then down to 0, which is reached after `steps` (Devlin et al. 2018).

    >>> schedule = WarmupLinearDecay(1e-4, steps=1_000_000, warmup_steps=10_000)
    >>> [round(float(schedule(step)), 9) for step in (0, 9_999, 505_000, 1_000_000)]
    [1e-08, 0.0001, 5e-05, 0.0]
    """

    def __init__(self, peak: float, *, steps: int, warmup_steps: int = 0) -> None:
        if not 0 <= warmup_steps <= steps:
            raise ValueError(
                f"`warmup_steps` must be from 0 to {steps}, the number of steps. Received: warmup_steps={warmup_steps}"
            )
        self.peak = peak
        self.steps = steps
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32")
        rising = (step + 1) / max(1, self.warmup_steps)  # the first step changes the weights too
        falling = (self.steps - step) / max(1, self.steps - self.warmup_steps)
        return self.peak * ops.clip(ops.minimum(rising, falling), 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        return {"peak": self.peak, "steps": self.steps, "warmup_steps": self.warmup_steps}


class _OfBert(CountsUpdates, WithoutSeparateDecay):
    """BERT's values, and no training of weights in half precision."""

    def __init__(
        self, learning_rate: Any = 3e-5, weight_decay: float = 0.01, epsilon: float = 1e-6, **kwargs: Any
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, epsilon=epsilon, **kwargs)  # type: ignore[call-arg]
        self.exclude_from_weight_decay(var_names=list(NO_DECAY))  # type: ignore[attr-defined]

    def build(self, variables: Any) -> None:
        check_trainable(variables)
        super().build(variables)  # type: ignore[misc]


@keras.saving.register_keras_serializable("keras_bert")
class AdamW(_OfBert, keras.optimizers.AdamW):
    """Keras's AdamW with BERT's values: weight decay 0.01 on all but biases and norms, epsilon 1e-6.

    On TensorFlow one op updates moments and weight in one pass over memory, where Keras uses a dozen ops.

    Args:
        layer_decay: below 1, lower layers change less; see `layer_multipliers`. Their weight decay is as much smaller.
        layer_rates: by the name of a layer, a factor for its learning rate. Its weight decay stays as it is.

    >>> optimizer = AdamW(3e-5)
    >>> float(optimizer.weight_decay)
    0.01
    """

    def __init__(
        self, *args: Any, layer_decay: float = 1.0, layer_rates: dict[str, float] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.layer_decay = layer_decay
        set_untracked(self, "layer_rates", layer_rates or {})
        check_share(self, "layer_decay")
        self.decays_in_update = layer_decay != 1

    def build(self, variables: Any) -> None:
        super().build(variables)
        paths = [getattr(variable, "path", variable.name) for variable in variables]
        set_untracked(self, "_of_depth", layer_multipliers(paths, self.layer_decay))
        layers = [path.split("/")[-2:][0] for path in paths]
        set_untracked(self, "_of_layer", [self.layer_rates.get(layer, 1.0) for layer in layers])

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        number = number_of(self, variable)
        if self.decays_in_update:
            learning_rate = learning_rate * self._of_depth[number]
            if decays(self, variable):
                self.assign_sub(variable, variable * ops.cast(learning_rate * self.weight_decay, variable.dtype))
        if self._of_layer[number] != 1:
            learning_rate = learning_rate * self._of_layer[number]
        if self.amsgrad or keras.backend.backend() != "tensorflow":
            super().update_step(gradient, variable, learning_rate)
            return
        (m, v), dtype = moments_of(self, variable), variable.dtype
        beta_1, beta_2 = tf.constant(self.beta_1, dtype), tf.constant(self.beta_2, dtype)
        step = tf.cast(self.iterations + 1, dtype)
        tf.raw_ops.ResourceApplyAdam(  # the same formula as Keras's
            var=_handle(variable),
            m=_handle(m),
            v=_handle(v),
            beta1_power=tf.pow(beta_1, step),
            beta2_power=tf.pow(beta_2, step),
            lr=tf.cast(learning_rate, dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.constant(self.epsilon, dtype),
            grad=tf.cast(gradient, dtype),
        )

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"layer_decay": self.layer_decay, "layer_rates": self.layer_rates}


def layer_multipliers(paths: Iterable[str], decay: float) -> list[float]:
    """What the learning rate of each weight is multiplied by: 1 in the head and the pooler, and less further down.

    `decay` in the highest of the trained blocks, its square in the one below, and so on down to the embeddings: the
    discriminative fine-tuning of Howard and Ruder 2018, as Sun et al. 2019 and Clark et al. 2020 use it for BERT and
    ELECTRA.

    >>> paths = ["type_embeddings/embeddings", "layer_0_output/kernel", "layer_1_output/kernel", "classifier/kernel"]
    >>> layer_multipliers(paths, 0.5)
    [0.125, 0.25, 0.5, 1.0]
    """
    depths = [_depth(path) for path in paths]
    highest = max((depth for depth in depths if depth is not None), default=0)
    return [1.0 if depth is None else decay ** (highest + 1 - depth) for depth in depths]


def _depth(path: str) -> int | None:
    """How deep in the encoder a weight is: 0 for embeddings, from 1 for blocks; None outside."""
    block = BLOCK.search(path)
    return int(block[1]) + 1 if block else 0 if EMBEDDINGS.search(path) else None


def _handle(variable: Any) -> Any:
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle


@keras.saving.register_keras_serializable("keras_bert")
class Lamb(_OfBert, keras.optimizers.Lamb):
    """LAMB (You et al. 2019, algorithm 2), for batches of thousands: each matrix changes in proportion to its norm.

    As in the paper, the scaled update includes weight decay; Keras's LAMB applies it separately. As in the paper's
    code, biases and norms are neither decayed nor scaled.

    >>> optimizer = Lamb(1.76e-3)
    >>> float(optimizer.weight_decay)
    0.01
    """

    def __init__(self, learning_rate: Any = 1.76e-3, *args: Any, **kwargs: Any) -> None:
        super().__init__(learning_rate, *args, **kwargs)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        (m, v), dtype = moments_of(self, variable), variable.dtype
        gradient, step = ops.cast(gradient, dtype), ops.cast(self.iterations + 1, dtype)
        self.assign_add(m, (gradient - m) * (1 - self.beta_1))
        self.assign_add(v, (ops.square(gradient) - v) * (1 - self.beta_2))
        update = (m / (1 - self.beta_1**step)) / (ops.sqrt(v / (1 - self.beta_2**step)) + self.epsilon)
        if decays(self, variable):
            update = update + (self.weight_decay or 0.0) * variable
            weight_norm, update_norm = ops.norm(ops.convert_to_tensor(variable)), ops.norm(update)
            moves = ops.logical_and(weight_norm > 0, update_norm > 0)
            update = update * ops.where(moves, weight_norm / ops.where(moves, update_norm, 1.0), 1.0)
        self.assign_sub(variable, ops.cast(learning_rate, dtype) * update)
