"""The paper's fine-tuning recipe (Devlin et al. 2018, appendix A.3), for a task that was not compiled."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from keras_bert.tasks.columns import count_of
from keras_bert.training.optimizer import AdamW, WarmupLinearDecay


@dataclass(frozen=True)
class FinetuneRecipe:
    """AdamW with warm-up, linear decay to 0 and gradients clipped to a norm."""

    learning_rate: float = 3e-5
    epochs: int = 3
    batch_size: int = 32
    warmup: float = 0.1  # of all steps
    weight_decay: float = 0.01
    clipnorm: float = 1.0
    epsilon: float = 1e-8  # pretraining's 1e-6 would hold back weights with small gradients in so few steps

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            count_of(name, getattr(self, name), 1)
        for name in ("learning_rate", "warmup", "weight_decay", "clipnorm", "epsilon"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 <= float(value) < math.inf:  # refuses NaN too
                raise ValueError(f"{name} must be a finite number of at least 0. Received: {name}={value!r}")

    def optimizer(self, steps: int) -> AdamW:
        """The optimizer of a run of this many steps."""
        schedule = WarmupLinearDecay(self.learning_rate, warmup_steps=self.warmup_steps(steps), steps=steps)
        return AdamW(
            schedule,
            weight_decay=self.weight_decay,
            epsilon=self.epsilon,
            global_clipnorm=self.clipnorm,
            name="paper_finetuning",
        )

    def warmup_steps(self, steps: int) -> int:
        """How many of the steps raise the learning rate."""
        return int(self.warmup * steps)

    def describe(self, task: str, steps: int) -> str:
        """A line for the log."""
        return (
            f"{task} trains with the paper's recipe: AdamW, learning rate {self.learning_rate:g} after "
            f"{self.warmup_steps(steps)} warm-up steps, decaying to 0 over {steps} steps, gradients clipped to norm "
            f"{self.clipnorm:g}. To change this, pass fit a recipe (keras_bert.tasks.finetune_recipe.FinetuneRecipe) "
            "or call compile(); keras-bert finetune has --learning-rate, --epochs and --batch-size."
        )


def steps_of(x: Any, batch_size: int, validation_split: float) -> int:
    """The steps in an epoch of packed inputs."""
    if isinstance(x, dict):
        return -(-math.floor(len(next(iter(x.values()))) * (1 - validation_split)) // batch_size)
    steps = int(x.cardinality()) if hasattr(x, "cardinality") else getattr(x, "num_batches", None)
    if steps is None or steps < 0:
        raise ValueError(
            "x does not say how many batches it has, and the paper's schedule depends on their number. Call compile() "
            f"before fit, or pass steps_per_epoch. Received: x={type(x).__name__}"
        )
    return steps
