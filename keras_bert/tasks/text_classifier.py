"""TextClassifier: one label, or several, of a text or of a pair of texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.layers.norm import Dropout
from keras_bert.tasks.columns import check_lengths, column, rows_of, weights
from keras_bert.tasks.heads import check_bert, head_layer
from keras_bert.tasks.labelled_rows import LabelledRows, packer_of
from keras_bert.tasks.labels import check_labels, class_weights, label_ids
from keras_bert.tasks.signature import Logits, Signature, classify_signatures
from keras_bert.tasks.task import Task, as_batch
from keras_bert.text.tokenized_rows import pieces


@dataclass(frozen=True)
class Classification:
    """The likeliest label of a text with its probability, and the probability of each.

    >>> Classification("good", 0.9, {"bad": 0.6, "good": 0.9}).above(0.5)
    ('bad', 'good')
    """

    label: str
    score: float
    scores: dict[str, float]

    def above(self, threshold: float = 0.5) -> tuple[str, ...]:
        """The labels as likely as that: what holds of a text where several may."""
        return tuple(label for label, score in self.scores.items() if score >= threshold)


@keras.saving.register_keras_serializable("keras_bert")
class TextClassifier(Task):
    """A Dense layer on the pooled output (Devlin et al. 2018, section 4.1): logits [B, C].

    `x` is a column of texts, or a tuple of two for pairs; `y` label names or ids. With `multi_label` every label is a
    question of its own, and `y` holds the labels of each text, ["sport", "news"], or is a matrix of 0 and 1.

    Arguments: labels: names, in the order of the logits. multi_label: whether several labels may hold at once.
    freeze: train the head alone.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = TextClassifier(bert, labels=("negative", "positive"))
    >>> history = task.fit(["good", "bad"], ["positive", "negative"], epochs=1, verbose=0)
    >>> task.classify("good").label in task.labels
    True
    """

    heads: tuple[str, ...] = ("classifier",)

    def __init__(
        self,
        bert: Bert,
        labels: Sequence[str],
        *,
        multi_label: bool = False,
        freeze: bool = False,
        name: str | None = None,
    ) -> None:
        check_bert(bert)
        labels = check_labels(labels, least=1 if multi_label else 2)

        # === Layers ===
        dropout = Dropout(bert.config.hidden_dropout_prob, dtype=bert.dtype_policy, name="classifier_dropout")
        classifier = head_layer(len(labels), bert, name="classifier")

        # === Functional model ===
        logits = classifier(dropout(bert.output["pooled_output"]))  # [B, C]
        super().__init__(bert, bert.input, logits, freeze=freeze, name=name)

        # === Config ===
        self.labels = labels
        self.multi_label = multi_label

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "labels": list(self.labels), "multi_label": self.multi_label}

    @classmethod
    def settings(cls, head: Any) -> dict[str, Any]:
        count = head.weights["classifier/bias"].shape[0]
        labels = head.labels or tuple(f"LABEL_{number}" for number in range(count))
        return {"labels": labels, "multi_label": head.multi_label}

    # === Training ===

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        texts, segments = text_segments(self.bert, x)
        if y is None:
            return LabelledRows(segments, packer_of(self.bert))
        targets = self.target_ids(y)
        check_lengths(texts=texts, labels=targets)
        weight = weights(sample_weight, len(targets))
        if not self.multi_label:
            weight *= class_weights(class_weight, self.labels)[targets]
        elif class_weight is not None:
            raise ValueError("class_weight is for one label a text. With multi_label, give sample_weight.")
        return LabelledRows(segments, packer_of(self.bert), targets=targets, weights=weight)

    def check_learnable(self, examples: LabelledRows) -> None:
        if not self.multi_label and len(np.unique(examples.targets)) < 2:
            raise ValueError(
                "There must be at least two different labels to learn from. "
                f"Received: {self.labels[examples.targets[0]]!r} alone"
            )

    def default_loss(self) -> keras.losses.Loss:
        if self.multi_label:
            return keras.losses.BinaryCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        return super().default_loss()

    def default_metrics(self) -> list[keras.metrics.Metric]:
        if self.multi_label:
            return [keras.metrics.BinaryAccuracy(threshold=0.0)]
        return super().default_metrics()

    def scores(self, y: Any, logits: Any) -> dict[str, Any]:
        if self.multi_label:
            return {"binary_accuracy": keras.metrics.binary_accuracy(y, logits, threshold=0.0)}
        return super().scores(y, logits)

    def target_ids(self, y: Any) -> Any:
        if y is None:
            return None
        return _several(y, self.labels) if self.multi_label else label_ids(y, self.labels)

    def _class_weight_ids(self, class_weight: Any) -> Any:
        if class_weight is None or self.multi_label:
            return super()._class_weight_ids(class_weight)
        return dict(enumerate(class_weights(class_weight, self.labels).tolist()))

    # === Answers ===

    def classify(self, texts: Any, batch_size: int = 32) -> Any:
        """A `Classification` of each text or pair; for a single one, one `Classification`."""
        x, one = as_batch(texts)
        examples = self.examples(x)
        answers = self.decode(examples, self.logits(examples, batch_size))
        return answers[0] if one else answers

    def decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[Classification]:
        scores = np.reshape(logits, (len(logits), len(self.labels)))  # [n, C]
        scores = ops.convert_to_numpy(ops.sigmoid(scores) if self.multi_label else ops.softmax(scores))
        named = [dict(zip(self.labels, row.tolist(), strict=True)) for row in scores]
        best = [self.labels[number] for number in scores.argmax(1)]
        return [Classification(label, row[label], row) for label, row in zip(best, named, strict=True)]

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        signatures = super().signatures(logits, seq_length)
        return signatures | classify_signatures(signatures["serving_default"], signatures["pair"])

    def answers_in_graph(self, logits: Any, texts: tuple[Any, ...]) -> dict[str, Any]:
        import tensorflow as tf

        labels = tf.constant(self.labels)  # [C]
        scores = tf.sigmoid(logits) if self.multi_label else tf.nn.softmax(logits)  # [B, C]
        return {
            "label": tf.gather(labels, tf.argmax(scores, axis=1)),
            "score": tf.reduce_max(scores, axis=1),
            "labels": tf.repeat(labels[tf.newaxis], tf.shape(scores)[0], axis=0),  # [B, C]
            "scores": scores,
        }


def text_segments(bert: Bert, x: Any) -> tuple[list[str], list[Any]]:
    """The first column of texts, and the ids of each of the one or two columns."""
    columns = [column(values) for values in (x if isinstance(x, tuple) else (x,))]
    if len(columns) > 2:
        raise ValueError(f"A row is a text or a pair of texts. Pass at most two columns. Received: {len(columns)}")
    check_lengths(**dict(zip(("texts", "second_texts"), columns, strict=False)))
    return columns[0], [pieces(bert.preprocessor, texts) for texts in columns]


def _several(y: Any, labels: tuple[str, ...]) -> np.ndarray:
    """0 and 1 of each label, float32 [n, C]."""
    if getattr(y, "ndim", 1) == 2:
        matrix = np.asarray(y)
        if matrix.shape[1] != len(labels) or not np.isin(matrix, (0, 1)).all():
            raise ValueError(
                f"A matrix of labels must hold 0 or 1 for each of {len(labels)} labels. Received: shape {matrix.shape}"
            )
        return matrix.astype("float32")
    rows = rows_of(y, "label")
    if rows and all(_tells_each(row, len(labels)) for row in rows):
        return np.array(rows, "float32")
    found = np.zeros((len(rows), len(labels)), "float32")
    for number, row in enumerate(rows):
        if isinstance(row, str) or not hasattr(row, "__iter__"):
            raise TypeError(
                f"With multi_label each text has a list of labels, or an empty one. Received: {row!r} at row {number}"
            )
        found[number, label_ids(list(row), labels, where=f"row {number}")] = 1
    return found


def _tells_each(row: Any, count: int) -> bool:
    """Whether a row is one of a matrix, as those of datasets and of a tf.data are; ids would all be there."""
    if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != count:
        return False
    return all(not isinstance(value, str | bytes) and value in (0, 1) for value in row)
