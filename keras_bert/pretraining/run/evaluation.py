"""evaluate: how well any weights predict masked words and next sentences in held-out text."""

import dataclasses
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.checks import check_choice, check_length
from keras_bert.policy import HALF, TRAINABLE_DTYPES
from keras_bert.pretraining.examples.read_examples import ExampleReader
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.text.rules import TextRules
from keras_bert.training.strategy import check_backend
from keras_bert.training.strategy import strategy as find_strategy
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.heads import assign_head


@dataclass(frozen=True)
class Evaluation:
    """The means over `examples` examples; those of next sentences only if the model and the data have them.

    most_frequent_piece: the most common answer.
    most_frequent_accuracy: the accuracy of always giving that answer, as a baseline.
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
    """Evaluate any weights that `Pretrainer.load` accepts on a directory of examples.

    strategy: a name for `keras_bert.strategy`, or a strategy.
    batch_size: of the global batch. Examples that are masked while they are read get other masks with another size.
    seed: of the masks.
    dtype: the Keras policy in which the model computes, such as "mixed_bfloat16".
    damaged: at a shard that is cut off or damaged, "stop" with an error that names it, or "skip" the rest of it.
    """
    check_backend()
    check_choice("dtype", dtype, TRAINABLE_DTYPES + HALF)
    from keras_bert.training.train import mean_measures  # needs TensorFlow and Orbit

    strategy = find_strategy(strategy) if isinstance(strategy, str) else strategy
    with strategy.scope():
        model = Pretrainer.load(source, dtype=dtype)
    preprocessor = model.bert.preprocessor if model.bert.has_preprocessor else None
    examples = ExampleReader.open(data, vocabulary=preprocessor and preprocessor.vocabulary, damaged=damaged)
    if preprocessor and examples.rules and examples.rules != (rules := TextRules.of(preprocessor)):
        raise ValueError(
            f"The examples in {data} were written with other text rules than those of the model. Write them again with "
            f"the model's options. Received: {examples.rules} in {data}, {rules} in {source}"
        )
    size = model.bert.config.vocab_size
    if examples.vocabulary and len(examples.vocabulary) > size:
        raise ValueError(
            f"The examples in {data} have more pieces than the model has word vectors. Use examples that were written "
            f"with the model's vocabulary. Received: {len(examples.vocabulary)} pieces, {size} vectors"
        )
    check_length(examples.seq_length, model.bert.config.max_position_embeddings)
    if model.nsp and not examples.nsp:
        checkpoint = Checkpoint.of(model)
        with strategy.scope():
            model = Pretrainer(model.bert, nsp=False, mlm_config=model.mlm_config)
        assign_head(model, checkpoint)

    batches = examples.once(batch_size, seed=seed)
    answers = _count_answers(batches(0, (0, 1)), size, data)
    means = mean_measures(model, batches, strategy=strategy, batch_size=batch_size)()
    return Evaluation(
        examples=len(examples),
        masked_lm_accuracy=means["masked_lm_accuracy"],
        most_frequent_accuracy=float(answers.max() / max(1, answers.sum())),
        most_frequent_piece=preprocessor.vocabulary.token(int(answers.argmax())) if preprocessor else "",
        masked_lm_perplexity=math.exp(means["masked_lm_loss"]),
        next_sentence_accuracy=means.get("next_sentence_accuracy"),
        next_sentence_loss=means.get("next_sentence_loss"),
    )


def _count_answers(batches: Any, vocabulary_size: int, data: Any) -> np.ndarray:
    """How often each id is the answer at a masked position; an error if the model has no such id."""
    counts = np.zeros(vocabulary_size, "int64")
    for x, y, weight in batches.as_numpy_iterator():
        if (most := max(x["input_word_ids"].max(), y["mlm_logits"].max())) >= vocabulary_size:
            raise ValueError(
                f"The examples in {data} have ids that the model has no word vectors for. Use examples that were "
                f"written with the model's vocabulary. Received: the id {most}, {vocabulary_size} vectors"
            )
        counts += np.bincount(y["mlm_logits"][weight["mlm_logits"] > 0], minlength=vocabulary_size)
    return counts
