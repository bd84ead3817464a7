"""Recipe: the numbers of a pretraining run."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from keras_bert.training.optimizer import AdamW, Lamb, WarmupLinearDecay

OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}
DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a BERT is pretrained; as it stands, by the paper's appendix A.2.

    warmup: the share of the steps over which the learning rate rises. phases: the share of the steps for each length of
    the data; data of one length takes them all. accumulate: in how many parts a replica takes its rows of a batch.
    remat: compute attention maps again in the backward pass, for large models on small chips. dropout: of vectors and
    of attention maps; a short run that sees no example twice learns faster with 0.

    >>> Recipe().warmup_steps
    10000
    >>> Recipe().phase_ends(phases=2)
    [900000, 1000000]
    >>> type(Recipe(optimizer="lamb", steps=100).build_optimizer()).__name__
    'Lamb'
    """

    size: str = "base"
    batch_size: int = 256
    steps: int = 1_000_000
    learning_rate: float = 1e-4
    warmup: float = 0.01
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    dropout: float = 0.1
    optimizer: str = "adamw"
    phases: tuple[float, ...] = (0.9, 0.1)
    accumulate: int = 1
    dtype: str = "mixed_bfloat16"
    remat: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "steps", "accumulate"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={getattr(self, name)}")
        if not 0 <= self.warmup <= 1:
            raise ValueError(f"warmup is a share of the steps, 0 to 1. Received: warmup={self.warmup}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be 0 or more and below 1. Received: dropout={self.dropout}")
        if self.learning_rate <= 0 or not math.isfinite(self.learning_rate):
            raise ValueError(f"learning_rate must be above 0. Received: learning_rate={self.learning_rate}")
        if not math.isclose(sum(self.phases), 1) or min(self.phases) <= 0:
            raise ValueError(f"phases are shares that add up to 1. Received: phases={self.phases}")
        for name, known in (("optimizer", tuple(OPTIMIZERS)), ("dtype", DTYPES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}. Received: {name}={getattr(self, name)!r}")

    @property
    def warmup_steps(self) -> int:
        """How many steps the learning rate rises."""
        return round(self.warmup * self.steps)

    def phase_ends(self, phases: int) -> list[int]:
        """The step at which each phase ends, of as many as there are directories of data."""
        if phases not in (1, len(self.phases)):
            raise ValueError(
                f"The data must have one length, or a directory for each of the {len(self.phases)} phases of the "
                f"recipe. Received: {phases} directories"
            )
        shares = self.phases if phases > 1 else (1.0,)
        return [round(sum(shares[: i + 1]) * self.steps) for i in range(phases)]

    def build_optimizer(self) -> Any:
        """The optimizer with its schedule over all steps; it scales the loss where float16 would lose gradients."""
        import keras

        schedule = WarmupLinearDecay(self.learning_rate, steps=self.steps, warmup_steps=self.warmup_steps)
        optimizer = OPTIMIZERS[self.optimizer](schedule, weight_decay=self.weight_decay)
        return keras.optimizers.LossScaleOptimizer(optimizer) if self.dtype == "mixed_float16" else optimizer


PAPER = Recipe()
RECIPES = {
    "paper-base": PAPER,
    "paper-large": dataclasses.replace(PAPER, size="large"),
    "tiny-laptop": dataclasses.replace(
        PAPER, size="tiny", batch_size=64, steps=20_000, learning_rate=1e-3, warmup=0.05, dtype="float32"
    ),
    "base-one-gpu": dataclasses.replace(PAPER, accumulate=4),
    "base-v5e-1": dataclasses.replace(PAPER, accumulate=8),
    "base-v5e-8": PAPER,
    # You et al. 2019, table 4: the batch of 32,768 with its learning rate and its warm-up.
    "large-pod": dataclasses.replace(
        PAPER,
        size="large",
        batch_size=32_768,
        steps=15_625,
        learning_rate=5e-3,
        warmup=0.2,
        optimizer="lamb",
        accumulate=8,
    ),
}


def find_recipe(name: str) -> Recipe:
    """The recipe of a name."""
    if name not in RECIPES:
        raise ValueError(f"recipe must be one of {', '.join(RECIPES)}. Received: {name!r}")
    return RECIPES[name]
