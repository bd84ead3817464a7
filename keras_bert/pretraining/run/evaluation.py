"""evaluate: how well any weights tell masked words and next sentences on text that was held out."""

import dataclasses
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.inputs import check_length
from keras_bert.pretraining.examples.read_examples import Examples
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.text.rules import TextRules
from keras_bert.training.loop import check_backend
from keras_bert.training.loop import evaluate as means_over
from keras_bert.training.strategy import strategy as find_strategy
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.heads import assign_head

DTYPES = ("float32", "bfloat16", "float16", "mixed_bfloat16", "mixed_float16")


@dataclass(frozen=True)
class Evaluation:
    """The means over `examples` examples; next sentences only where model and data have them.

    most_frequent_piece: the commonest answer. most_frequent_accuracy: that of giving it always, to compare with.
    """

    examples: int
    masked_lm_accuracy: float
    most_frequent_accuracy: float
    most_frequent_piece: str
    masked_lm_perplexity: float
    next_sentence_accuracy: float | None = None
    next_sentence_loss: float | None = None

    def __str__(self) -> str:
        numbers = dataclasses.asdict(self)
        lines = [(name, f"{x:.4g}" if isinstance(x, float) else x) for name, x in numbers.items() if x is not None]
        return "\n".join(f"{name}\t{x}" for name, x in lines)


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

    damaged: "stop" at a shard that is cut off or damaged, or "skip" the rest of it.
    """
    check_backend()
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}. Received: dtype={dtype!r}")
    strategy = find_strategy(strategy) if isinstance(strategy, str) else strategy
    with strategy.scope():
        model = Pretrainer.load(source, dtype=dtype)
    preprocessor = model.bert._preprocessor
    examples = Examples.open(data, vocabulary=preprocessor and preprocessor.vocabulary, damaged=damaged)
    if preprocessor and examples.rules and examples.rules != (rules := TextRules.of(preprocessor)):
        raise ValueError(
            "Examples must be cut by the rules that the model was trained with. Write them with the model's vocab.txt "
            f"and options. Received: {examples.rules} in {data}, {rules} in {source}"
        )
    check_length(examples.seq_length, model.bert.config.max_position_embeddings)
    if model.nsp and not examples.nsp:
        checkpoint = Checkpoint.of(model)
        with strategy.scope():
            model = Pretrainer(model.bert, nsp=False, mlm_config=model.mlm_config)
        assign_head(model, checkpoint)

    def batches(step: int, part: tuple[int, int]) -> Any:
        return examples.batches(batch_size, seed=seed, part=part, epochs=1, fill=True)

    answers = _answers(batches(0, (0, 1)), model.bert.config.vocab_size)
    means = means_over(model, batches, strategy=strategy, batch_size=batch_size)
    return Evaluation(
        examples=len(examples),
        masked_lm_accuracy=means["masked_lm_accuracy"],
        most_frequent_accuracy=float(answers.max() / max(1, answers.sum())),
        most_frequent_piece=preprocessor.vocabulary.token(int(answers.argmax())) if preprocessor else "",
        masked_lm_perplexity=math.exp(means["masked_lm_loss"]),
        next_sentence_accuracy=means.get("next_sentence_accuracy"),
        next_sentence_loss=means.get("next_sentence_loss"),
    )


def _answers(batches: Any, vocabulary_size: int) -> np.ndarray:
    """How often each id stood at a masked position."""
    counts = np.zeros(vocabulary_size, "int64")
    for _, y, weight in batches.as_numpy_iterator():
        counts += np.bincount(y["mlm_logits"][weight["mlm_logits"] > 0], minlength=vocabulary_size)
    return counts
