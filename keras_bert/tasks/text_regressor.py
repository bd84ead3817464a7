"""TextRegressor: a number for a text or a pair of texts."""

import logging
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.checks import check_choice
from keras_bert.choices import MAX_WINDOWS
from keras_bert.layers.norm import Dropout
from keras_bert.tasks.columns.other_columns import OtherColumns, with_columns
from keras_bert.tasks.columns.text_columns import as_batch, check_lengths, column, two_columns
from keras_bert.tasks.columns.value_columns import check_cosine_run, check_cosines, number_column, warn_of_one_score
from keras_bert.tasks.heads import check_bert, encode_rows, head_layer
from keras_bert.tasks.long_text_task import LongTextTask, text_vectors
from keras_bert.tasks.metrics import number_scores
from keras_bert.tasks.readers import TABLE_FIELDS, Rows, RowStream
from keras_bert.tasks.readers.columns import scored_rows
from keras_bert.tasks.reports.findings import Findings, columns_by_name
from keras_bert.tasks.reports.number_findings import number_findings
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from keras_bert.tasks.signature import Logits, Signature, pack_texts, strings
from keras_bert.text.tensors import tf
from keras_bert.text.tokenized_rows import pieces

PAIRS = ("together", "cosine")
USUAL = 5.0  # the largest of the numbers that a new head learns as it is, as in STS-B
SPREAD = 1.5  # the standard deviation of STS-B's numbers

logger = logging.getLogger("keras_bert")


@keras.saving.register_keras_serializable("keras_bert")
class TextRegressor(LongTextTask):
    """A number [B, 1] for each text or pair, by a Dense layer on the pooled output; trained on squared errors.

    `x` is a column of texts, or a tuple of two columns for pairs; `y` has numbers.

    Args:
        pairs: "together" puts both texts of a pair into one row, where each attends to the other. "cosine" encodes each
            text by itself, takes the mean of its tokens as its vector, and returns the cosine of the two vectors
            (Reimers and Gurevych 2019), so that texts can be embedded once and compared often. `y` must then be between
            -1 and 1, and the inputs are [B, 2, S].
        long, pool, max_windows, other_columns: as in `TextClassifier`; "windows" and columns only without "cosine".
        freeze: train only the head.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = TextRegressor(bert, pairs="cosine")
    >>> round(task.score(("good", "good")), 3)
    1.0
    """

    command: str = "regress"
    reader = staticmethod(scored_rows)
    best_score = "spearman"
    reading_fields: tuple[str, ...] = (*TABLE_FIELDS, "number", "category", "scale")
    usage: str = 'task.score("a text")'
    heads: tuple[str, ...] = ("regressor",)

    def __init__(
        self,
        bert: Bert,
        *,
        pairs: str = "together",
        long: str = "truncate",
        pool: str = "mean",
        max_windows: int = MAX_WINDOWS,
        other_columns: OtherColumns | None = None,
        freeze: bool = False,
        name: str | None = None,
    ) -> None:
        check_bert(bert)
        check_choice("pairs", pairs, PAIRS)
        if pairs == "cosine" and long == "windows":
            raise ValueError(
                'With pairs="cosine", each of the two texts is one row, but long="windows" splits a text into several '
                f'rows. Use long="head-tail". Received: pairs={pairs!r}, long={long!r}'
            )
        if pairs == "cosine" and other_columns is not None:
            raise ValueError(
                'pairs="cosine" compares two vectors, so it has no head to read other columns. Use '
                f'pairs="together". Received: pairs={pairs!r} and other_columns'
            )
        inputs, vectors = text_vectors(bert, long, pool)

        # === Layers ===
        dropout = Dropout(bert.config.hidden_dropout_prob, dtype=bert.dtype_policy, name="regressor_dropout")
        regressor = head_layer(1, bert, name="regressor")

        # === Functional model ===
        if pairs == "together":
            inputs, vectors = with_columns(inputs, dropout(vectors), other_columns)
            logits = regressor(vectors)  # [B, 1]
        else:
            inputs, tokens = encode_rows(bert, "sequence_output", rows=2)  # [2B, S, H], zero at padding
            vectors = ops.reshape(ops.sum(ops.cast(tokens, "float32"), axis=1), (-1, 2, tokens.shape[-1]))  # [B, 2, H]
            vectors = ops.normalize(vectors, axis=-1, epsilon=1e-12)  # of a sum as of a mean
            logits = ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1, keepdims=True)  # [B, 1]
        super().__init__(bert, inputs, logits, freeze=freeze, name=name)

        # === Config ===
        self.pairs = pairs
        self._keep_settings(long, pool, max_windows, other_columns)
        if pairs == "cosine":
            self.heads = ()

    # === Files and the command line ===

    @classmethod
    def check_run(cls, rows: Rows | RowStream, settings: Any) -> None:
        check_cosine_run(settings, rows.sample)

    @classmethod
    def from_rows(cls, bert: Bert, rows: Rows, settings: Any) -> "TextRegressor":
        return cls(bert, pairs="cosine" if settings.cosine else "together", **cls._options(rows, settings))

    def as_json(self, answer: Any) -> dict[str, Any]:
        return {"score": float(answer)}

    def report(self, y: Any, answers: list[float]) -> dict[str, float]:
        return number_scores(self.target_ids(y), answers)

    def findings(self, x: Any, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> Findings:
        answers = np.array(self.decoded(examples, logits, len(y)))
        return number_findings(columns_by_name(x, self._names(x)), self.target_ids(y), answers)

    # === Training ===

    def check_learnable(self, examples: LabelledRows) -> None:
        warn_of_one_score(examples.targets)

    def start_head(self, targets: Any) -> dict[str, float]:
        """A new head needs too many steps to reach numbers far from 0, so it starts at their mean.

        If they differ much, its weights and its learning rate are scaled up, so that a model learns numbers from 0 to
        50 as it learns numbers from 0 to 5.
        """
        if targets is None or self.pairs == "cosine" or np.abs(targets).max() <= USUAL:
            return {}
        targets = np.asarray(targets, "float64")
        mean, rate = float(targets.mean()), max(1.0, float(targets.std()) / SPREAD)
        head = self.get_layer("regressor")
        if not ops.convert_to_numpy(head.bias).any():  # it is new
            head.kernel.assign(head.kernel * rate)
            head.bias.assign([mean])
            logger.info("The head starts at the mean of the numbers to learn, %g.", mean)
        logger.info("The learning rate of the head is %g times that of the encoder.", rate)
        return {"regressor": rate}

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        if self.pairs == "together":
            return super().examples(x, y, sample_weight, class_weight)
        first, second = (column(values) for values in two_columns(x, "first texts", "second texts"))
        check_lengths(texts=first, second_texts=second)
        in_turn = [text for pair in zip(first, second, strict=True) for text in pair]
        segments = [pieces(self.bert.preprocessor, in_turn)]
        return self.with_targets(LabelledRows(segments, self.packer, 2), y, sample_weight, class_weight)

    def target_ids(self, y: Any) -> Any:
        if y is None:
            return None
        found = number_column(y, "number")
        if self.pairs == "cosine":
            check_cosines(found)
        return found

    def default_loss(self) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")

    def default_metrics(self) -> list[keras.metrics.Metric]:
        return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]

    def target_scores(self, y: Any, logits: Any) -> dict[str, Any]:
        return {"mean_absolute_error": ops.abs(logits[:, 0] - y)}

    # === Answers ===

    def score(self, texts: Any, batch_size: int = 32) -> Any:
        """A number for each text or pair, float32 [n]; for a single text or pair, a float."""
        x, one = as_batch(texts)
        scores = self.answers(x, batch_size)
        return scores[0] if one else np.array(scores, "float32")

    def decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[float]:
        return [float(row[0]) for row in logits]

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        if self.pairs == "together":
            return super().signatures(logits, seq_length)
        packer = self.packer

        def compare(text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
            texts = tf.reshape(tf.stack([text, text_pair], axis=1), [-1])  # [B * 2]
            rows, truncated = pack_texts(self.bert.preprocessor, [texts], seq_length, rows=2, packer=packer)
            return {"score": logits(rows)[:, 0], "truncated": truncated}

        return {"serving_default": Signature(compare, strings("text", "text_pair"))}

    def answers_in_graph(self, logits: Any, texts: tuple[Any, ...]) -> dict[str, Any]:
        return {"score": logits[:, 0]}
