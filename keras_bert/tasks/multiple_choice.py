"""MultipleChoice: which of a few texts goes with a prompt."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.layers.norm import Dropout
from keras_bert.tasks.columns.text_columns import check_lengths, column, flat, rows_of, two_columns
from keras_bert.tasks.heads import check_bert, encode_rows, head_layer
from keras_bert.tasks.metrics.calibration import calibration_error
from keras_bert.tasks.readers import TABLE_FIELDS, Reading, Rows, tab_columns
from keras_bert.tasks.readers.columns import choice_rows
from keras_bert.tasks.reports.findings import Findings, columns_by_name
from keras_bert.tasks.reports.label_findings import choice_findings
from keras_bert.tasks.rows.labelled_rows import LabelledRows, packer_of
from keras_bert.tasks.rows.labels import label_ids
from keras_bert.tasks.signature import Logits, Signature, pack_texts, strings
from keras_bert.tasks.task import Task
from keras_bert.text.tensors import tf
from keras_bert.text.tokenized_rows import as_tensors, pieces
from keras_bert.wording import plural


@dataclass(frozen=True)
class Choice:
    """The number of the chosen text, from 0, the text, its probability, and the probability of each choice."""

    index: int
    text: str
    score: float
    scores: tuple[float, ...]


@keras.saving.register_keras_serializable("keras_bert")
class MultipleChoice(Task):
    """Logits [B, C]: each choice gets a score in a row with the prompt (Devlin et al. 2018, section 4.4).

    `x` is a tuple of a column of prompts and a column of lists of choices; `y` has the numbers of the right choices.
    The inputs are [B, C, S].

    Args:
        choices: the number of choices of a prompt.
        freeze: train only the head.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> MultipleChoice(bert, choices=2).choose("good", ["bad", "good"]).index in (0, 1)
    True
    """

    command: str = "choose"
    reader = staticmethod(choice_rows)
    reading_fields: tuple[str, ...] = (*TABLE_FIELDS, "choices")
    run_fields: tuple[str, ...] = ("stream", "label_smoothing")
    usage: str = 'task.choose("a prompt", ["a choice", "another"])'
    heads: tuple[str, ...] = ("choice",)
    table: tuple[tuple[str, ...], str] = (("prompt", "choices"), "label")

    def __init__(self, bert: Bert, choices: int = 4, *, freeze: bool = False, name: str | None = None) -> None:
        check_bert(bert)
        if not hasattr(choices, "__index__"):
            raise TypeError(
                "`choices` must be the number of choices of a prompt, such as 4. Pass the texts to `fit` and `choose`. "
                f"Received: choices={choices!r}"
            )
        if choices < 2:
            raise ValueError(f"`choices` must be at least 2. Use a larger number. Received: choices={choices}")
        choices = operator.index(choices)

        # === Layers ===
        dropout = Dropout(bert.config.hidden_dropout_prob, dtype=bert.dtype_policy, name="choice_dropout")
        choice = head_layer(1, bert, name="choice")

        # === Functional model ===
        inputs, pooled = encode_rows(bert, "pooled_output", rows=choices)  # [B * C, H]
        logits = ops.reshape(choice(dropout(pooled)), (-1, choices))  # [B, C]
        super().__init__(bert, inputs, logits, freeze=freeze, name=name)

        # === Config ===
        self.choices = choices

    # === Files and the command line ===

    @classmethod
    def from_rows(cls, bert: Bert, rows: Rows, settings: Any) -> "MultipleChoice":
        return cls(bert, choices=len(settings.reading.choices))

    def read_lines(self, lines: Sequence[tuple[int, str]], reading: Reading) -> Any:
        prompts, *choices = tab_columns(lines, 1 + self.choices)
        return prompts, [list(row) for row in zip(*choices, strict=True)]

    def report(self, y: Any, answers: list[Choice]) -> dict[str, float]:
        right = self.target_ids(y) == np.array([choice.index for choice in answers])
        error = calibration_error(right, [choice.score for choice in answers])
        return {"accuracy": float(right.mean()), "calibration_error": error}

    def findings(self, x: Any, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> Findings:
        scores = np.array([answer.scores for answer in self.decoded(examples, logits, len(y))])  # [n, C]
        return choice_findings(columns_by_name(x, self.table[0]), examples.decoding, self.target_ids(y), scores)

    # === Training ===

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        prompts, choices = self._texts(x)
        first, second = (
            as_tensors(pieces(self.bert.preprocessor, texts))
            for texts in (prompts, [text for row in choices for text in row])
        )
        with tf.device("CPU:0"):
            first = tf.gather(first, np.repeat(np.arange(len(prompts)), self.choices))  # a prompt for each choice
        examples = LabelledRows([first, second], packer_of(self.bert), self.choices, decoding=choices)
        return self.with_targets(examples, y, sample_weight, class_weight)

    def _texts(self, x: Any) -> tuple[list[str], list[list[str]]]:
        given = two_columns(x, "prompts", "lists of choices")
        prompts, rows = column(given[0], "prompt"), rows_of(given[1], "choice")
        check_lengths(prompts=prompts, choices=rows)
        choices = []
        for number, row in enumerate(rows):
            texts = column(row, f"choice of row {number}")
            if len(texts) != self.choices:
                found = f"{len(texts)} {plural('choice', len(texts))}"
                other = f", or build the task with choices={len(texts)}" if len(texts) > 1 else ""
                raise ValueError(
                    f"Row {number} has {found}, but the task needs {self.choices}. Correct the row{other}. "
                    f"Received: {found}"
                )
            choices.append(texts)
        return prompts, choices

    def target_ids(self, y: Any) -> Any:
        if y is None:
            return None
        y = rows_of(flat(y), "choice")
        for row, value in enumerate(y):
            if str(value).isdecimal() and int(value) >= self.choices:
                raise ValueError(
                    f"The right choice at row {row} must be a number from 0 to {self.choices - 1}, since the first "
                    f"choice has the number 0. Correct it. Received: {value!r}"
                )
        return label_ids(y, tuple(str(number) for number in range(self.choices)))

    # === Answers ===

    def choose(self, prompts: Any, choices: Any = None, batch_size: int = 32) -> Any:
        """A `Choice` for each prompt and its list of choices, also of a table with both; for a single prompt, one."""
        one = isinstance(prompts, str)
        x = ([prompts], [choices]) if one else prompts if choices is None else (prompts, choices)
        answers = self.answers(x, batch_size)
        return answers[0] if one else answers

    def decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[Choice]:
        scores = ops.convert_to_numpy(ops.softmax(np.reshape(logits, (len(logits), self.choices))))  # [n, C]
        rows = zip(scores.argmax(1).tolist(), scores.tolist(), examples.decoding, strict=True)
        return [Choice(best, texts[best], row[best], tuple(row)) for best, row, texts in rows]

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        count = self.choices

        def answer(prompt: tf.Tensor, choices: tf.Tensor) -> dict[str, tf.Tensor]:
            columns = [tf.repeat(prompt, count), tf.reshape(choices, [-1])]  # [B * C]
            rows, truncated = pack_texts(self.bert.preprocessor, columns, seq_length, rows=count)
            scores = tf.nn.softmax(logits(rows))  # [B, C]
            index = tf.argmax(scores, axis=1, output_type=tf.int32)
            return {
                "index": index,
                "choice": tf.gather(choices, index, batch_dims=1),
                "score": tf.reduce_max(scores, axis=1),
                "scores": scores,
                "truncated": truncated,
            }

        choices = tf.TensorSpec([None, count], tf.string, "choices")
        return {"serving_default": Signature(answer, {**strings("prompt"), "choices": choices})}
