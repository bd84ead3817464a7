"""evaluate: how well any weights tell masked words and next sentences on text that was held out."""

import dataclasses
import math
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

from keras_bert.inputs import check_length
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.pretraining.read import Examples
from keras_bert.training.loop import evaluate as means_over
from keras_bert.training.strategy import strategy as find_strategy


@dataclass(frozen=True)
class Evaluation:
    """The means over `examples` examples; next sentences only where model and data have them."""

    examples: int
    masked_lm_accuracy: float
    most_frequent_piece: float  # the accuracy of always saying it
    masked_lm_perplexity: float
    next_sentence_accuracy: float | None = None
    next_sentence_loss: float | None = None

    def __str__(self) -> str:
        numbers = dataclasses.asdict(self)
        return "\n".join(f"{name}\t{value:.4g}" for name, value in numbers.items() if value is not None)


def evaluate(
    source: Any,
    data: str | os.PathLike,
    *,
    strategy: Any = "one",
    batch_size: int = 32,
    seed: int = 0,
    dtype: str = "float32",
    damaged: str = "stop",
) -> Evaluation:
    """Evaluate the weights of anything that `Pretrainer.load` takes on a directory of examples, masked by a seed.

    A last batch that is not full is left out.

    damaged: "stop" at a shard that is cut off or damaged, or "skip" the rest of it.
    """
    strategy = find_strategy(strategy) if isinstance(strategy, str) else strategy
    with strategy.scope():
        model = Pretrainer.load(source, dtype=dtype)
    preprocessor = model.bert._preprocessor
    examples = Examples.open(data, vocabulary=preprocessor and preprocessor.vocabulary, damaged=damaged)
    check_length(examples.seq_length, model.bert.config.max_position_embeddings)
    if model.nsp and not examples.nsp:
        with strategy.scope():
            model = Pretrainer.load(source, nsp=False, dtype=dtype)
    batch_size = min(batch_size, len(examples))

    def batches(step: int, part: tuple[int, int]) -> Any:
        return examples.batches(batch_size, seed=seed, part=part, epochs=1)

    means = means_over(model, batches, strategy=strategy, batch_size=batch_size)
    return Evaluation(
        examples=len(examples) // batch_size * batch_size,
        masked_lm_accuracy=means["masked_lm_accuracy"],
        most_frequent_piece=_most_frequent_piece(batches(0, (0, 1))),
        masked_lm_perplexity=math.exp(means["masked_lm_loss"]),
        next_sentence_accuracy=means.get("next_sentence_accuracy"),
        next_sentence_loss=means.get("next_sentence_loss"),
    )


def _most_frequent_piece(batches: Any) -> float:
    """Its share of all masked pieces."""
    counts: Counter = Counter()
    for _, y, weights in batches:
        ids, shown = y["mlm_logits"].numpy(), weights["mlm_logits"].numpy() > 0  # [B, P]
        counts.update(ids[shown].tolist())
    return max(counts.values(), default=0) / max(1, counts.total())
