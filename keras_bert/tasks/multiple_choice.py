"""MultipleChoice: which of a few texts goes with a prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.layers.norm import Dropout
from keras_bert.tasks.columns import check_lengths, column, rows_of, weights
from keras_bert.tasks.heads import check_bert, encode_rows, head_layer
from keras_bert.tasks.labelled_rows import LabelledRows, interleave, packer_of, repeated
from keras_bert.tasks.labels import label_ids
from keras_bert.tasks.signature import Logits, Signature, group_rows, pack_texts, strings
from keras_bert.tasks.task import Task
from keras_bert.text.tokenized_rows import pieces


@dataclass(frozen=True)
class Choice:
    """The number of the chosen text from 0, the text, its probability, and the probability of each."""

    index: int
    text: str
    score: float
    scores: tuple[float, ...]


@keras.saving.register_keras_serializable("keras_bert")
class MultipleChoice(Task):
    """Logits [B, C]: each choice is read behind the prompt and gets a score (Devlin et al. 2018, section 4.4).

    `x` is a tuple of a column of prompts and a column of lists of choices; `y` the number of the right one. The inputs
    are [B, C, S].

    Arguments: choices: how many there are to choose from. freeze: train the head alone.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> MultipleChoice(bert, choices=2).choose("good", ["bad", "good"]).index in (0, 1)
    True
    """

    heads: tuple[str, ...] = ("choice",)
    table: tuple[tuple[str, ...], str] = (("prompt", "choices"), "label")

    def __init__(self, bert: Bert, choices: int = 4, *, freeze: bool = False, name: str | None = None) -> None:
        check_bert(bert)
        if choices < 2:
            raise ValueError(f"There must be at least 2 choices. Received: choices={choices}")

        # === Layers ===
        dropout = Dropout(bert.config.hidden_dropout_prob, dtype=bert.dtype_policy, name="choice_dropout")
        choice = head_layer(1, bert, name="choice")

        # === Functional model ===
        inputs, pooled = encode_rows(bert, "pooled_output", rows=choices)  # [B * C, H]
        logits = ops.reshape(choice(dropout(pooled)), (-1, choices))  # [B, C]
        super().__init__(bert, inputs, logits, freeze=freeze, name=name)

        # === Config ===
        self.choices = choices

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "choices": self.choices}

    # === Training ===

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        if class_weight is not None:
            raise ValueError("class_weight is for labels. Give sample_weight. Received: class_weight for choices")
        prompts, choices = self._texts(x)
        count = self.choices
        segments = [
            repeated(pieces(self.bert.preprocessor, prompts), count),
            pieces(self.bert.preprocessor, interleave(*zip(*choices, strict=True))),
        ]
        if y is None:
            return LabelledRows(segments, packer_of(self.bert), count, decoding=choices)
        targets = self.target_ids(y)
        check_lengths(prompts=prompts, answers=targets)
        weight = weights(sample_weight, len(targets))
        return LabelledRows(segments, packer_of(self.bert), count, targets, weight, decoding=choices)

    def _texts(self, x: Any) -> tuple[list[str], list[list[str]]]:
        if not isinstance(x, tuple) or len(x) != 2:
            raise TypeError("x must be a tuple: a column of prompts, and a column of lists of choices.")
        prompts, rows = column(x[0], "prompt"), rows_of(x[1], "choice")
        check_lengths(prompts=prompts, choices=rows)
        choices = []
        for number, row in enumerate(rows):
            texts = column(row, f"choice of row {number}")
            if len(texts) != self.choices:
                raise ValueError(
                    f"Each prompt must have {self.choices} choices. Fill up the row, or build the task with "
                    f"choices={len(texts)}. Received: {len(texts)} at row {number}"
                )
            choices.append(texts)
        return prompts, choices

    def target_ids(self, y: Any) -> Any:
        return y if y is None else label_ids(y, tuple(str(number) for number in range(self.choices)))

    # === Answers ===

    def choose(self, prompts: Any, choices: Sequence[Any], batch_size: int = 32) -> Any:
        """A `Choice` for each prompt and its list of choices; for a single prompt, one `Choice`."""
        one = isinstance(prompts, str)
        examples = self.examples(([prompts], [choices]) if one else (prompts, choices))
        answers = self.decode(examples, self.logits(examples, batch_size))
        return answers[0] if one else answers

    def decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[Choice]:
        scores = ops.convert_to_numpy(ops.softmax(np.reshape(logits, (len(logits), self.choices))))  # [n, C]
        rows = zip(scores.argmax(1).tolist(), scores.tolist(), examples.decoding, strict=True)
        return [Choice(best, texts[best], row[best], tuple(row)) for best, row, texts in rows]

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        import tensorflow as tf

        count = self.choices

        def answer(prompt: tf.Tensor, choices: tf.Tensor) -> dict[str, tf.Tensor]:
            columns = [tf.repeat(prompt, count), tf.reshape(choices, [-1])]  # [B * C]
            rows, truncated = pack_texts(self.bert.preprocessor, columns, seq_length)
            scores = tf.nn.softmax(logits(group_rows(rows, count)))  # [B, C]
            index = tf.argmax(scores, axis=1, output_type=tf.int32)
            return {
                "index": index,
                "choice": tf.gather(choices, index, batch_dims=1),
                "score": tf.reduce_max(scores, axis=1),
                "scores": scores,
                "truncated": tf.reduce_any(tf.reshape(truncated, [-1, count]), axis=1),
            }

        choices = tf.TensorSpec([None, count], tf.string, "choices")
        return {"serving_default": Signature(answer, {**strings("prompt"), "choices": choices})}
