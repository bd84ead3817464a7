"""The paper's fine-tuning recipe (Devlin et al. 2018, appendix A.3), for a task that was not compiled."""

import logging
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_bert.training.optimizer import AdamW

logger = logging.getLogger("keras_bert")

NAME = "paper_finetuning"  # of the optimizer, by which a later fit knows that it was not the user's choice


@dataclass(frozen=True)
class Recipe:
    """AdamW with warm-up, linear decay to 0 and gradients clipped to a norm."""

    learning_rate: float = 3e-5
    epochs: int = 3
    batch_size: int = 32
    warmup: float = 0.1  # of all steps
    weight_decay: float = 0.01
    clipnorm: float = 1.0

    def optimizer(self, steps: int) -> AdamW:
        """The optimizer of a run of so many steps."""
        schedule = WarmupDecay(self.learning_rate, warmup_steps=int(self.warmup * steps), steps=steps)
        return AdamW(schedule, weight_decay=self.weight_decay, global_clipnorm=self.clipnorm, name=NAME)

    def compile(self, task: Any, steps: int) -> None:
        """Compile a task for a run of so many steps, and say so."""
        logger.warning(
            "%s was not compiled, so it is trained as in the paper: AdamW, learning rate %g after %d warm-up steps, "
            "falling to 0 in %d steps, gradients clipped to norm %g. Call compile() for other settings.",
            task.name,
            self.learning_rate,
            int(self.warmup * steps),
            steps,
            self.clipnorm,
        )
        # XLA would compile anew for each length of a batch, and compute the padding.
        jit_compile = False if keras.backend.backend() == "tensorflow" else "auto"
        task.compile(
            self.optimizer(steps),
            task.default_loss(),
            weighted_metrics=task.default_metrics(),
            jit_compile=jit_compile,
        )


def needs_recipe(task: Any, initial_epoch: int) -> bool:
    """Whether a fit begins with the recipe: not compiled by the user, and not going on with an earlier run of it."""
    return not task.compiled or (initial_epoch == 0 and task.optimizer.name == NAME)


@keras.saving.register_keras_serializable("keras_bert")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """From 0 up to `peak` in `warmup_steps`, then down to 0 at `steps`, both in a line.

    >>> schedule = WarmupDecay(1.0, warmup_steps=10, steps=30)
    >>> [round(float(schedule(step)), 2) for step in (0, 5, 10, 20, 30)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(self, peak: float, *, warmup_steps: int, steps: int) -> None:
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.steps = steps

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32")
        rising = step / max(self.warmup_steps, 1)
        falling = (self.steps - step) / max(self.steps - self.warmup_steps, 1)
        return self.peak * ops.clip(ops.minimum(rising, falling) if self.warmup_steps else falling, 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "steps": self.steps}
