"""FinetuneRecipe: how `fit` trains a task that was not compiled, by default as in the paper."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keras_bert.checks import check_finite, check_positive, check_share
from keras_bert.wording import plural

if TYPE_CHECKING:
    from keras_bert.training.optimizer import AdamW

SHARES = ("layer_decay", "ema", "label_smoothing")
OPTIONS = (*SHARES, "accumulate", "class_weight")  # which the paper does not have


@dataclass(frozen=True)
class FinetuneRecipe:
    """AdamW with warm-up, linear decay to 0 and gradients clipped to a norm (Devlin et al. 2018, appendix A.3).

    The options after `epsilon` are not in that paper, and off by default. Pass a recipe to `fit`, or compile with its
    `optimizer`.

    Args:
        batch_size: by default the task's own: 16, or 32 for a `SentenceEmbedder`.
        warmup: the share of the steps in which the learning rate rises.
        layer_decay: what the learning rate is multiplied by from one block to the one below (Howard and Ruder 2018,
            Sun et al. 2019), such as 0.9.
        ema: the momentum of a moving average of the weights, such as 0.99, whose values are validated and saved (Polyak
            and Juditsky 1992); 0 keeps the weights of the last step.
        label_smoothing: the share of each target that is spread evenly over all labels (Szegedy et al. 2016).
        accumulate: the weights change once for so many batches, by the mean of their gradients (Ott et al. 2018).
        class_weight: how much each label weighs, by name; labels that are not named weigh 1. "balanced" gives all
            labels of the training rows the same total (King and Zeng 2001). With `multi_label` it is the weight of
            the texts that have the label.

    >>> recipe = FinetuneRecipe(learning_rate=2e-5, layer_decay=0.9)
    >>> optimizer = recipe.optimizer(steps=100)
    >>> optimizer.epsilon, recipe.warmup_steps(100)
    (1e-08, 10)
    >>> recipe.describe("TextClassifier", steps=100)
    'TextClassifier trains with this recipe: AdamW, ... norm 1, layer_decay 0.9. To change this, ...'
    """

    learning_rate: float = 5e-5
    epochs: int = 3
    batch_size: int | None = None
    warmup: float = 0.1
    weight_decay: float = 0.01
    clipnorm: float = 1.0
    epsilon: float = 1e-8  # pretraining's 1e-6 would hold back weights with small gradients in so few steps
    layer_decay: float = 1.0
    ema: float = 0.0
    label_smoothing: float = 0.0
    accumulate: int = 1
    class_weight: Any = None

    def __post_init__(self) -> None:
        check_positive(self, "epochs", "accumulate", *(["batch_size"] if self.batch_size is not None else []))
        check_finite(self, "learning_rate", "warmup", "weight_decay", "clipnorm", "epsilon", *SHARES)
        check_share(self, *SHARES)
        for name, useless, what, off in (
            ("layer_decay", 0, "only the head would learn", 1),
            ("ema", 1, "the average would stay at the first weights", 0),
            ("label_smoothing", 1, "all labels would look alike", 0),
        ):
            if getattr(self, name) == useless:
                raise ValueError(
                    f"With {name}={useless}, {what}. Use a value between 0 and 1, or {off} to turn the option off. "
                    f"Received: {name}={useless}"
                )

    def optimizer(self, steps: int, layer_rates: dict[str, float] | None = None) -> "AdamW":
        """The optimizer of a run of this many batches, with its schedule. layer_rates: as of `AdamW`."""
        from keras_bert.training.optimizer import AdamW, WarmupLinearDecay  # here, so that a recipe needs no Keras

        updates = self.updates(steps)
        schedule = WarmupLinearDecay(self.learning_rate, warmup_steps=self.warmup_steps(steps), steps=updates)
        return AdamW(
            schedule,
            weight_decay=self.weight_decay,
            epsilon=self.epsilon,
            global_clipnorm=self.clipnorm,
            layer_decay=self.layer_decay,
            layer_rates=layer_rates,
            use_ema=self.ema > 0,
            ema_momentum=self.ema or 0.99,
            gradient_accumulation_steps=self.accumulate if self.accumulate > 1 else None,
            name="paper_finetuning",
        )

    def updates(self, steps: int) -> int:
        """How often the weights change in this many batches.

        >>> FinetuneRecipe(accumulate=4).updates(steps=100)
        25
        """
        if self.accumulate > max(1, steps):
            raise ValueError(
                f"`accumulate` is {self.accumulate}, but the training has only {steps} batches, so the weights would "
                f"never change. Use at most {steps}, a smaller batch_size or more epochs. Received: "
                f"accumulate={self.accumulate}"
            )
        return max(1, steps // self.accumulate)

    def warmup_steps(self, steps: int) -> int:
        """How many of the updates raise the learning rate."""
        return int(self.warmup * self.updates(steps))

    def describe(self, task: str, steps: int) -> str:
        """A line for the log."""
        used = "".join(f", {name} {value}" for name, value in self.options().items())
        warmup, updates = self.warmup_steps(steps), self.updates(steps)
        return (
            f"{task} trains with this recipe: AdamW, learning rate {self.learning_rate:g} after {warmup} warm-up "
            f"{plural('step', warmup)}, decaying to 0 over {updates} {plural('step', updates)}, gradients clipped to "
            f"norm {self.clipnorm:g}{used}. To change this, pass a recipe (keras_bert.FinetuneRecipe) to `fit`, or "
            "call compile(); keras-bert finetune has --learning-rate, --epochs and --batch-size."
        )

    def options(self) -> dict[str, Any]:
        """The options after `epsilon` that are used.

        >>> FinetuneRecipe(ema=0.99).options()
        {'ema': 0.99}
        """
        values = {name: getattr(self, name) for name in OPTIONS}
        return {name: value for name, value in values.items() if value != getattr(FinetuneRecipe, name)}
