"""TextRegressor: a number of a text or of a pair of texts."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.layers.norm import Dropout
from keras_bert.tasks.columns import check_lengths, column, numbers, weights
from keras_bert.tasks.heads import check_bert, encode_rows, head_layer
from keras_bert.tasks.labelled_rows import LabelledRows, interleave, packer_of
from keras_bert.tasks.signature import Logits, Signature, group_rows, pack_texts, strings
from keras_bert.tasks.task import Task, as_batch
from keras_bert.tasks.text_classifier import text_segments
from keras_bert.text.tokenized_rows import pieces

PAIRS = ("together", "cosine")


@keras.saving.register_keras_serializable("keras_bert")
class TextRegressor(Task):
    """A number [B, 1] of each text or pair, by a Dense layer on the pooled output; trained on squared errors.

    `x` is a column of texts, or a tuple of two for pairs; `y` numbers.

    Arguments: pairs: "together", both texts of a pair in one sequence, which sees the one with the other; or "cosine",
    each text alone, the mean of its tokens one vector, and the number the cosine of the two vectors (Reimers and
    Gurevych 2019), so that texts can be embedded once and compared often; `y` must be in -1...1 then, and the inputs
    are [B, 2, S]. freeze: train the head alone.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = TextRegressor(bert, pairs="cosine")
    >>> round(task.score(("good", "good")), 3)
    1.0
    """

    heads: tuple[str, ...] = ("regressor",)

    def __init__(self, bert: Bert, *, pairs: str = "together", freeze: bool = False, name: str | None = None) -> None:
        check_bert(bert)
        if pairs not in PAIRS:
            raise ValueError(f"pairs must be one of {PAIRS}. Received: pairs={pairs!r}")

        # === Layers ===
        dropout = Dropout(bert.config.hidden_dropout_prob, dtype=bert.dtype_policy, name="regressor_dropout")
        regressor = head_layer(1, bert, name="regressor")

        # === Functional model ===
        if pairs == "together":
            inputs = bert.input
            logits = regressor(dropout(bert.output["pooled_output"]))  # [B, 1]
        else:
            inputs, tokens = encode_rows(bert, "sequence_output", rows=2)  # [2B, S, H], zero at padding
            vectors = ops.reshape(ops.sum(ops.cast(tokens, "float32"), axis=1), (-1, 2, tokens.shape[-1]))  # [B, 2, H]
            vectors = ops.normalize(vectors, axis=-1, epsilon=1e-12)  # of a sum as of a mean
            logits = ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1, keepdims=True)  # [B, 1]
        super().__init__(bert, inputs, logits, freeze=freeze, name=name)

        # === Config ===
        self.pairs = pairs
        if pairs == "cosine":
            self.heads = ()

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "pairs": self.pairs}

    # === Training ===

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        if self.pairs == "together":
            texts, segments = text_segments(self.bert, x)
            rows = 1
        else:
            texts, segments = self._pairs(x)
            rows = 2
        if class_weight is not None:
            raise ValueError("class_weight is for labels. Give sample_weight. Received: class_weight for numbers")
        if y is None:
            return LabelledRows(segments, packer_of(self.bert), rows)
        targets = self.target_ids(y)
        check_lengths(texts=texts, numbers=targets)
        return LabelledRows(segments, packer_of(self.bert), rows, targets, weights(sample_weight, len(targets)))

    def _pairs(self, x: Any) -> tuple[list[str], list[Any]]:
        if not isinstance(x, tuple) or len(x) != 2:
            raise ValueError('pairs="cosine" compares two texts. Pass a tuple of two columns. Received: one column')
        first, second = (column(values) for values in x)
        check_lengths(texts=first, second_texts=second)
        return first, [pieces(self.bert.preprocessor, interleave(first, second))]

    def target_ids(self, y: Any) -> Any:
        if y is None:
            return None
        found = numbers(y, "number")
        if self.pairs == "cosine" and np.abs(found).max(initial=0) > 1:
            row = int(np.abs(found).argmax())
            raise ValueError(
                "A cosine is in -1...1. Scale the numbers, as in y / 5 for scores from 0 to 5. "
                f"Received: {found[row]} at row {row}"
            )
        return found

    def default_loss(self) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")

    def default_metrics(self) -> list[keras.metrics.Metric]:
        return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]

    def scores(self, y: Any, logits: Any) -> dict[str, Any]:
        return {"mean_absolute_error": ops.abs(logits[:, 0] - y)}

    # === Answers ===

    def score(self, texts: Any, batch_size: int = 32) -> Any:
        """A number for each text or pair, float32 [n]; for a single one, a float."""
        x, one = as_batch(texts)
        examples = self.examples(x)
        scores = self.decode(examples, self.logits(examples, batch_size))
        return scores[0] if one else np.array(scores, "float32")

    def decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[float]:
        return [float(row[0]) for row in logits]

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        if self.pairs == "together":
            return super().signatures(logits, seq_length)
        import tensorflow as tf

        def compare(text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
            texts = tf.reshape(tf.stack([text, text_pair], axis=1), [-1])  # [B * 2]
            rows, truncated = pack_texts(self.bert.preprocessor, [texts], seq_length)
            score = logits(group_rows(rows, 2))[:, 0]  # [B]
            return {"score": score, "truncated": tf.reduce_any(tf.reshape(truncated, [-1, 2]), 1)}

        return {"serving_default": Signature(compare, strings("text", "text_pair"))}

    def answers_in_graph(self, logits: Any, texts: tuple[Any, ...]) -> dict[str, Any]:
        return {"score": logits[:, 0]}
