"""Recipe: the hyperparameters of a pretraining run."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras

from keras_bert.checks import check_above_zero, check_choice, check_finite, check_positive, check_share
from keras_bert.policy import TRAINABLE_DTYPES
from keras_bert.training.optimizer import AdamW, Lamb, WarmupLinearDecay

OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}


class Stage(NamedTuple):
    """Steps of a run with the same directory of examples and the same batch size."""

    phase: int  # the number of the directory, from 0
    begin: int  # the first step
    end: int
    first_batch: int  # the batch of the examples that the first step reads, if all have this size
    batch_size: int
    accumulate: int


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a BERT is pretrained; the defaults are those of the paper's appendix A.2.

    size: of a new model; a run that starts from other weights has their size.
    batch_size: of the global batch, over all devices.
    ramp: the share of the steps with smaller batches: a quarter of batch_size for the first half of them, then half.
    warmup: the share of the steps over which the learning rate rises.
    dropout: of vectors and of attention maps; a short run that sees no example twice learns faster with 0.
    phases: the share of the steps for each directory of examples; a single directory is used for all steps.
    accumulate: how many parts a replica splits its rows of a batch into, to save memory.
    remat: whether attention maps are computed again in the backward pass, to save memory.
    examples: the options of `keras-bert examples` that it is meant for, if they differ from the defaults.

    >>> Recipe().warmup_steps
    10000
    >>> Recipe().phase_ends(phases=2)
    [900000, 1000000]
    >>> [(stage.end, stage.batch_size) for stage in Recipe(ramp=0.2, steps=100).stages(phases=1)]
    [(10, 64), (20, 128), (100, 256)]
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
    ramp: float | None = None
    examples: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_positive(self, "batch_size", "steps", "accumulate")
        check_share(self, "warmup", *(["ramp"] if self.ramp is not None else []))
        if self.ramp and self.batch_size % 4:
            raise ValueError(
                f"With `ramp`, `batch_size` must be a multiple of 4. Received: batch_size={self.batch_size}, "
                f"ramp={self.ramp}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be at least 0 and below 1. Received: dropout={self.dropout}")
        check_above_zero("learning_rate", self.learning_rate)
        check_finite(self, "weight_decay")
        if not 0 < self.clip_norm < math.inf:
            raise ValueError(
                "`clip_norm` must be above 0 and finite. To clip no gradient, use a very large value, such as 1e9. "
                f"Received: clip_norm={self.clip_norm}"
            )
        if not math.isclose(sum(self.phases), 1) or min(self.phases) <= 0:
            raise ValueError(f"`phases` must be shares above 0 that add up to 1. Received: phases={self.phases}")
        check_choice("optimizer", self.optimizer, tuple(OPTIMIZERS))
        check_choice("dtype", self.dtype, TRAINABLE_DTYPES)

    @property
    def warmup_steps(self) -> int:
        """The number of steps over which the learning rate rises."""
        return round(self.warmup * self.steps)

    def phase_ends(self, phases: int) -> list[int]:
        """The step at which each phase ends, for this number of directories of examples."""
        if phases not in (1, len(self.phases)):
            raise ValueError(
                f"`data` must be one directory of examples, or one for each of the {len(self.phases)} phases of the "
                f"recipe. Received: {phases} directories"
            )
        shares = self.phases if phases > 1 else (1.0,)
        return [round(sum(shares[: i + 1]) * self.steps) for i in range(phases)]

    def stages(self, phases: int) -> list[Stage]:
        """The run in order. Within a phase, each stage reads on where the one before it stopped."""
        ramp = (self.ramp or 0) * self.steps
        found = []
        begin = 0
        for phase, phase_end in enumerate(self.phase_ends(phases)):
            read = 0  # examples
            for ramp_end, divisor in ((round(ramp / 2), 4), (round(ramp), 2), (self.steps, 1)):
                end = min(ramp_end, phase_end)
                if end > begin:
                    size = self.batch_size // divisor
                    first_batch = -(-read // size)
                    found.append(Stage(phase, begin, end, first_batch, size, -(-self.accumulate // divisor)))
                    read = (first_batch + end - begin) * size
                    begin = end
        return found

    def build_optimizer(self) -> Any:
        """The optimizer with its schedule over all steps; with float16, it scales the loss to keep small gradients."""
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
    # About 9.7e18 FLOP. docs/pretraining.md says where the values come from.
    "base-one-gpu-24h": dataclasses.replace(
        PAPER,
        batch_size=4096,
        ramp=0.3,
        steps=40_000,
        learning_rate=5e-4,
        warmup=0.06,
        dropout=0.0,
        accumulate=32,
        examples={"seq_length": 128, "nsp": False, "rate": 0.3},
    ),
    "base-v5e-1": dataclasses.replace(PAPER, accumulate=8),
    "base-v5e-8": PAPER,
    # You et al. 2019, table 4: a batch of 32,768, with the learning rate and the warm-up given for it.
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
    """The recipe with a name."""
    check_choice("recipe", name, tuple(RECIPES))
    return RECIPES[name]
