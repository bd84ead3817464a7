"""The paper's fine-tuning recipe (Devlin et al. 2018, appendix A.3), for a task that was not compiled."""

import logging
import math
from dataclasses import dataclass
from typing import Any

import keras

from keras_bert.training.optimizer import AdamW, WarmupLinearDecay

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
    epsilon: float = 1e-8  # the 1e-6 of pretraining would hold back what has small gradients, in so few steps

    def optimizer(self, steps: int) -> AdamW:
        """The optimizer of a run of so many steps."""
        schedule = WarmupLinearDecay(self.learning_rate, warmup_steps=int(self.warmup * steps), steps=steps)
        return AdamW(
            schedule,
            weight_decay=self.weight_decay,
            epsilon=self.epsilon,
            global_clipnorm=self.clipnorm,
            name=NAME,
        )

    def compile(self, task: Any, steps: int, level: int = logging.INFO) -> None:
        """Compile a task for a run of so many steps, and say so on a level of the log."""
        logger.log(
            level,
            "%s is trained as in the paper: AdamW, learning rate %g after %d warm-up steps, falling to 0 in %d steps, "
            "gradients clipped to norm %g. To change this, give fit a recipe (keras_bert.tasks.finetune_recipe.Recipe) "
            "or call compile(); keras-bert finetune has --learning-rate, --epochs and --batch-size.",
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
    return not task.compiled or (initial_epoch == 0 and has_recipe(task))


def has_recipe(task: Any) -> bool:
    """Whether a task that is compiled was so by the recipe, and not by the user."""
    optimizer = getattr(task.optimizer, "inner_optimizer", task.optimizer)  # behind loss scaling
    return optimizer is not None and optimizer.name == NAME


def steps_of(x: Any, batch_size: int, validation_split: float) -> int:
    """The steps of an epoch of packed inputs."""
    if isinstance(x, dict):
        return -(-math.floor(len(next(iter(x.values()))) * (1 - validation_split)) // batch_size)
    steps = int(x.cardinality()) if hasattr(x, "cardinality") else getattr(x, "num_batches", None)
    if steps is None or steps < 0:
        raise ValueError("The paper's schedule must know the number of steps. Call compile() first.")
    return steps
