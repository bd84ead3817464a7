"""TextClassifier: one label, or several, of a text or of a pair of texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.layers.norm import Dropout
from keras_bert.tasks.columns import as_batch, rows_of
from keras_bert.tasks.heads import check_bert, head_layer
from keras_bert.tasks.labelled_rows import LabelledRows
from keras_bert.tasks.labels import (
    check_labels,
    class_weights,
    label_ids,
    label_weights,
    sorted_labels,
    stored_labels,
)
from keras_bert.tasks.losses.label_losses import WeighedBinaryCrossentropy
from keras_bert.tasks.metrics import label_scores, multi_label_scores
from keras_bert.tasks.metrics.by_label import scores_by_label
from keras_bert.tasks.metrics.classification import positive_label
from keras_bert.tasks.readers import TABLE_FIELDS, Reading, Rows
from keras_bert.tasks.signature import Logits, Signature, classify_signatures
from keras_bert.tasks.task import Task
from keras_bert.text.tensors import tf


@dataclass(frozen=True)
class Classification:
    """The most likely label of a text with its probability, and the probability of each label.

    >>> Classification("good", 0.9, {"bad": 0.6, "good": 0.9}).above(0.5)
    ('bad', 'good')
    """

    label: str
    score: float
    scores: dict[str, float]

    def above(self, threshold: float = 0.5) -> tuple[str, ...]:
        """The labels that are at least this likely, for texts that can have several labels."""
        return tuple(label for label, score in self.scores.items() if score >= threshold)


@keras.saving.register_keras_serializable("keras_bert")
class TextClassifier(Task):
    """A Dense layer on the pooled output (Devlin et al. 2018, section 4.1): logits [B, C].

    `x` is a column of texts, or a tuple of two columns for pairs; `y` has label names or ids. With `multi_label` each
    label is decided by itself, and `y` has a list of labels for each text, such as ["sport", "news"], or is a matrix of
    0 and 1.

    Args:
        labels: names, in the order of the logits.
        multi_label: whether a text can have several labels.
        freeze: train only the head.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = TextClassifier(bert, labels=("negative", "positive"))
    >>> history = task.fit(["good", "bad"], ["positive", "negative"], epochs=1, verbose=0)
    >>> task.classify("good").label in task.labels
    True
    """

    command: str = "classify"
    reading_fields: tuple[str, ...] = (*TABLE_FIELDS, "separator", "positive")
    usage: str = 'task.classify("a text")'
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

    @classmethod
    def settings(cls, head: Any) -> dict[str, Any]:
        return {"labels": stored_labels(head, "classifier"), "multi_label": head.multi_label}

    # === Files and the command line ===

    @classmethod
    def labels_of(cls, rows: Rows) -> Iterator[tuple[int, str]]:
        for row, value in enumerate(rows.y):
            for label in [value] if isinstance(value, str) else value:
                yield row, label

    @classmethod
    def check_rows(cls, rows: Rows) -> None:
        if isinstance(rows.y[0], str):
            super().check_rows(rows)
        elif not any(rows.y):
            raise ValueError(
                f"No row of {rows.path} has a label. Add labels, or name the right column. Received: only empty lists"
            )

    @classmethod
    def from_rows(cls, bert: Bert, rows: Rows, settings: Any) -> "TextClassifier":
        labels = sorted_labels(label for _, label in cls.labels_of(rows))
        positive, several = settings.reading.positive, isinstance(rows.y[0], list)
        positive_label(labels, positive)  # an error now, and not after the first epoch
        if several and positive is not None:
            raise ValueError(
                "positive (--positive) was given where a text can have several labels. Leave it out: the F1 of each "
                f"label is reported. Received: positive={positive!r}"
            )
        return cls(bert, labels, multi_label=several)

    @property
    def best_score(self) -> str:
        return "f1_micro" if self.multi_label else "accuracy"

    @classmethod
    def report_options(cls, reading: Reading) -> dict[str, Any]:
        return {} if reading.positive is None else {"positive": reading.positive}

    def report(self, y: Any, answers: list[Classification], positive: str | None = None) -> dict[str, float]:
        ids = self.target_ids(y), self._predicted(answers)
        if self.multi_label:
            return multi_label_scores(*ids)
        true, predicted = ([self.labels[number] for number in numbers] for numbers in ids)
        return label_scores(true, predicted, self.labels, positive)

    def details(self, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> dict[str, Any]:
        """The scores of each label, and the label that `f1` is of."""
        true, predicted = self.target_ids(y), self._predicted(self.decode(examples, logits))
        if self.multi_label:
            return {"labels": scores_by_label(true, predicted, self.labels)}
        rows = np.eye(len(self.labels))  # [C, C]
        found = {"labels": scores_by_label(rows[true], rows[predicted], self.labels)}
        label = positive_label(self.labels, options.get("positive"))
        return found if label is None else {**found, "positive": label}

    def _predicted(self, answers: list[Classification]) -> np.ndarray:
        """The answers as `target_ids` has them."""
        return self.target_ids([answer.above(0.5) if self.multi_label else answer.label for answer in answers])

    # === Training ===

    def check_learnable(self, examples: LabelledRows) -> None:
        if not self.multi_label and len(np.unique(examples.targets)) < 2:
            raise ValueError(
                "All rows have the same label, and two different labels are needed to learn anything. Add rows of "
                f"another label. Received: only {self.labels[examples.targets[0]]!r}"
            )

    def default_loss(self) -> keras.losses.Loss:
        if self.multi_label:
            return keras.losses.BinaryCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
        return super().default_loss()

    def default_metrics(self) -> list[keras.metrics.Metric]:
        if self.multi_label:
            return [keras.metrics.BinaryAccuracy(threshold=0.0)]
        return super().default_metrics()

    def target_scores(self, y: Any, logits: Any) -> dict[str, Any]:
        if self.multi_label:
            return {"binary_accuracy": keras.metrics.binary_accuracy(y, logits, threshold=0.0)}
        return super().target_scores(y, logits)

    def target_ids(self, y: Any) -> Any:
        if y is None:
            return None
        return _several(y, self.labels) if self.multi_label else label_ids(y, self.labels)

    @property
    def weighs_labels_in_loss(self) -> bool:
        return self.multi_label

    def recipe_loss(self, label_smoothing: float = 0.0, class_weight: Any = None, targets: Any = None) -> Any:
        if not self.multi_label:
            return super().recipe_loss(label_smoothing)
        if not label_smoothing and class_weight is None:
            return self.default_loss()
        weights = label_weights(class_weight, self.labels, targets)
        return WeighedBinaryCrossentropy(weights.tolist(), label_smoothing=label_smoothing)

    def class_weight_ids(self, class_weight: Any, targets: Any = None) -> dict[int, float] | None:
        if class_weight is None:
            return None
        if not self.multi_label:
            return dict(enumerate(class_weights(class_weight, self.labels, targets).tolist()))
        label_weights(class_weight, self.labels, targets)  # an error if it is wrong
        return None

    # === Answers ===

    def classify(self, texts: Any, batch_size: int = 32) -> Any:
        """A `Classification` for each text or pair; for a single text, one."""
        x, one = as_batch(texts)
        answers = self.answers(x, batch_size)
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
        labels = tf.constant(self.labels)  # [C]
        scores = tf.sigmoid(logits) if self.multi_label else tf.nn.softmax(logits)  # [B, C]
        return {
            "label": tf.gather(labels, tf.argmax(scores, axis=1)),
            "score": tf.reduce_max(scores, axis=1),
            "labels": tf.repeat(labels[tf.newaxis], tf.shape(scores)[0], axis=0),  # [B, C]
            "scores": scores,
        }


def _several(y: Any, labels: tuple[str, ...]) -> np.ndarray:
    """0 and 1 of each label, float32 [n, C]."""
    if getattr(y, "ndim", 1) == 2:
        matrix = np.asarray(y)
        if matrix.shape[1] != len(labels) or not np.isin(matrix, (0, 1)).all():
            raise ValueError(
                f"y is a matrix that does not have 0 or 1 for each of the {len(labels)} labels. Correct it, or pass "
                f"lists of labels. Received: shape {matrix.shape}"
            )
        return matrix.astype("float32")
    rows = rows_of(y, "label")
    if rows and all(_is_matrix_row(row, len(labels)) for row in rows):
        return np.array(rows, "float32")
    found = np.zeros((len(rows), len(labels)), "float32")
    for number, row in enumerate(rows):
        if isinstance(row, str) or not hasattr(row, "__iter__"):
            raise TypeError(
                f"Row {number} has no list of labels, which a task with multi_label needs. Pass a list, empty if no "
                f"label holds. Received: {row!r}"
            )
        found[number, label_ids(list(row), labels, where=f"row {number}")] = 1
    return found


def _is_matrix_row(row: Any, count: int) -> bool:
    """Whether a list is a row of a matrix of 0 and 1, as datasets and tf.data have them, and not a list of ids."""
    if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != count:
        return False
    return all(not isinstance(value, str | bytes) and value in (0, 1) for value in row)
