"""TextClassifier: one label, or several, of a text or of a pair of texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.checks import check_flag
from keras_bert.choices import MAX_WINDOWS
from keras_bert.layers.norm import Dropout
from keras_bert.tasks.columns.other_columns import OtherColumns, with_columns
from keras_bert.tasks.columns.tables import by_labels, is_table
from keras_bert.tasks.columns.text_columns import as_batch
from keras_bert.tasks.columns.value_columns import check_not_nan
from keras_bert.tasks.heads import check_bert, head_layer
from keras_bert.tasks.long_text_task import LongTextTask, text_vectors
from keras_bert.tasks.losses.label_losses import WeighedBinaryCrossentropy
from keras_bert.tasks.metrics import calibration, label_scores, multi_label_scores
from keras_bert.tasks.metrics.by_label import scores_by_label
from keras_bert.tasks.metrics.classification import positive_label
from keras_bert.tasks.readers import TABLE_FIELDS, Reading, Rows
from keras_bert.tasks.reports.findings import Findings, columns_by_name
from keras_bert.tasks.reports.label_findings import label_findings, several_labels_findings
from keras_bert.tasks.rows.class_weight import class_weights, label_weights
from keras_bert.tasks.rows.labelled_rows import LabelledRows
from keras_bert.tasks.rows.labels import (
    check_labels,
    label_ids,
    row_labels,
    several_labels,
    sorted_labels,
    stored_labels,
    warn_of_missing,
)
from keras_bert.tasks.signature import Logits, Signature, classify_signatures
from keras_bert.text.tensors import arrays, tf


@dataclass(frozen=True)
class Classification:
    """The most likely label of a text with its probability, and the probability of each label.

    label: None if its probability is below the classifier's `abstain_below`.
    thresholds: with `multi_label`, the threshold of each label; a label without one has 0.5.

    >>> Classification("good", 0.9, {"bad": 0.6, "good": 0.9}).above(0.7)
    ('good',)
    """

    label: str | None
    score: float
    scores: dict[str, float]
    thresholds: dict[str, float] = field(default_factory=dict, repr=False)

    def above(self, threshold: float | None = None) -> tuple[str, ...]:
        """The labels that are at least this likely, by default as likely as their thresholds."""
        least = self.thresholds if threshold is None else dict.fromkeys(self.scores, threshold)
        return tuple(label for label, score in self.scores.items() if score >= least.get(label, 0.5))


@keras.saving.register_keras_serializable("keras_bert")
class TextClassifier(LongTextTask):
    """A Dense layer on the pooled output (Devlin et al. 2018, section 4.1): logits [B, C].

    `x` is a column of texts, or a tuple of two columns for pairs; `y` has label names or ids. With `multi_label` each
    label is decided by itself, and `y` has a list of labels for each text, such as ["sport", "news"], or is a matrix of
    0 and 1.

    Args:
        labels: names, in the order of the logits.
        multi_label: whether a text can have several labels.
        long: how to read texts longer than the preprocessor's seq_length. "truncate" reads the first pieces;
            "head-tail" the first and the last pieces: a quarter of seq_length from the beginning, the rest from the end
            (Sun et al. 2019, "How to Fine-Tune BERT for Text Classification"); "windows" all of a single text, in
            windows of seq_length pieces that overlap by a quarter, and pools their vectors. The inputs are then
            [B, K, S], K windows for each text.
        pool: of windows: "mean", "max", or "attention", a mean with learned weights.
        max_windows: in training, read at most this many windows of a text, spread evenly over it. Answers read all.
        temperature: what logits are divided by, so that probabilities are right as often as they say; see `calibrate`.
        thresholds: with `multi_label`, the lowest probability at which a text has a label, for each label; 0.5 if None.
        abstain_below: return None (in an export, "") if the most likely label has a probability below this.
        other_columns: numbers and categories that the head reads beside the text; see `OtherColumns`.
        freeze: train only the head.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = TextClassifier(bert, labels=("negative", "positive"))
    >>> history = task.fit(["good", "bad"], ["positive", "negative"], epochs=1, verbose=0)
    >>> task.classify("good").label in task.labels
    True
    >>> sorted(task.calibrate(["good", "bad"] * 10, ["positive", "positive", "negative", "negative"] * 5))
    ['temperature']
    """

    command: str = "classify"
    reading_fields: tuple[str, ...] = (*TABLE_FIELDS, "number", "category", "separator", "positive")
    usage: str = 'task.classify("a text")'
    heads: tuple[str, ...] = ("classifier",)
    run_fields: tuple[str, ...] = (
        *LongTextTask.run_fields, "calibrate", "abstain_below", "class_weight", "label_smoothing",
    )  # fmt: skip
    taught_fields: tuple[str, ...] = ("multi_label", "labels", "other_columns")
    own_fields: tuple[str, ...] = (*LongTextTask.own_fields, "temperature", "thresholds", "abstain_below")
    temperature: float = 1.0
    thresholds: tuple[float, ...] | None = None
    abstain_below: float = 0.0

    def __init__(
        self,
        bert: Bert,
        labels: Sequence[str],
        *,
        multi_label: bool = False,
        long: str = "truncate",
        pool: str = "mean",
        max_windows: int = MAX_WINDOWS,
        temperature: float = 1.0,
        thresholds: Sequence[float] | None = None,
        abstain_below: float = 0.0,
        other_columns: OtherColumns | None = None,
        freeze: bool = False,
        name: str | None = None,
    ) -> None:
        check_bert(bert)
        check_flag("multi_label", multi_label)
        labels = check_labels(labels, least=1 if multi_label else 2)
        inputs, vectors = text_vectors(bert, long, pool)

        # === Layers ===
        dropout = Dropout(bert.config.hidden_dropout_prob, dtype=bert.dtype_policy, name="classifier_dropout")
        classifier = head_layer(len(labels), bert, name="classifier")

        # === Functional model ===
        inputs, vectors = with_columns(inputs, dropout(vectors), other_columns)
        logits = classifier(vectors)  # [B, C]
        super().__init__(bert, inputs, logits, freeze=freeze, name=name)

        # === Config ===
        self.labels = labels
        self.multi_label = multi_label
        self._keep_settings(long, pool, max_windows, other_columns)
        self.temperature = temperature
        self.thresholds = None if thresholds is None else tuple(thresholds)
        self.abstain_below = abstain_below
        calibration.check_calibration(labels, multi_label, self.temperature, self.thresholds, abstain_below)

    @classmethod
    def settings(cls, head: Any) -> dict[str, Any]:
        return {"labels": stored_labels(head, "classifier"), "multi_label": head.multi_label}

    # === Files and the command line ===

    @classmethod
    def labels_of(cls, rows: Rows) -> Iterator[tuple[int, str]]:
        return row_labels(rows)

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
        several = isinstance(rows.y[0], list)
        options = {**cls._options(rows, settings), "abstain_below": settings.abstain_below or 0.0}
        return cls(bert, labels, multi_label=several, **options)

    @property
    def best_score(self) -> str:
        return "f1_micro" if self.multi_label else "accuracy"

    @classmethod
    def report_options(cls, reading: Reading) -> dict[str, Any]:
        return {} if reading.positive is None else {"positive": reading.positive}

    def report(self, y: Any, answers: list[Classification], positive: str | None = None) -> dict[str, float]:
        ids = self.target_ids(y), self._predicted(answers)
        if self.multi_label:
            positive_label(self.labels, positive, several=True)
            found, chances = multi_label_scores(*ids), [[*answer.scores.values()] for answer in answers]  # [n, C]
            found["calibration_error"] = calibration.calibration_error(ids[0].ravel(), np.ravel(chances))
            return found
        true, predicted = ([self.labels[number] for number in numbers] for numbers in ids)
        found = label_scores(true, predicted, self.labels, positive)
        right = ids[0] == ids[1]
        found["calibration_error"] = calibration.calibration_error(right, [answer.score for answer in answers])
        if self.abstain_below:
            answered = np.array([answer.label is not None for answer in answers])
            found["answered"] = float(answered.mean())
            found["accuracy_answered"] = float(right[answered].mean()) if answered.any() else 0.0
        return found

    def as_json(self, answer: Any) -> dict[str, Any]:
        found = {"label": answer.label, "score": answer.score, "scores": answer.scores}
        return {**found, "labels": list(answer.above())} if self.multi_label else found

    def details(self, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> dict[str, Any]:
        """The scores of each label, and the label that `f1` is of."""
        true, predicted = self.target_ids(y), self._predicted(self.decoded(examples, logits, len(y)))
        if self.multi_label:
            return {"labels": scores_by_label(true, predicted, self.labels)}
        rows = np.eye(len(self.labels))  # [C, C]
        found = {"labels": scores_by_label(rows[true], rows[predicted], self.labels)}
        label = positive_label(self.labels, options.get("positive"))
        return found if label is None else {**found, "positive": label}

    def findings(self, x: Any, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> Findings:
        columns, answers = columns_by_name(x, self._names(x)), self.decoded(examples, logits, len(y))
        scores = np.array([[*answer.scores.values()] for answer in answers])  # [n, C]
        if self.multi_label:
            return several_labels_findings(columns, self.target_ids(y), self._predicted(answers), scores, self.labels)
        return label_findings(columns, self.target_ids(y), scores, self.labels, abstain_below=self.abstain_below)

    def _predicted(self, answers: list[Classification]) -> np.ndarray:
        """The answers as `target_ids` has them; the most likely label also where the answer is that none is sure."""
        if self.multi_label:
            return self.target_ids([answer.above() for answer in answers])
        return self.target_ids([max(answer.scores, key=answer.scores.__getitem__) for answer in answers])

    # === Training ===

    def check_learnable(self, examples: LabelledRows) -> None:
        if not self.multi_label and len(np.unique(examples.targets)) < 2:
            raise ValueError(
                "All rows have the same label, and two different labels are needed to learn anything. Add rows of "
                f"another label. Received: only {self.labels[examples.targets[0]]!r}"
            )
        warn_of_missing(self.labels, examples.targets)

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
        if not self.multi_label:
            return label_ids(y, self.labels)
        return several_labels(self._in_order(y), self.labels)

    def _columns(self, x: Any, *given: Any, labels: bool = True) -> tuple[Any, Any, Any]:
        x, y, weights = super()._columns(x, *given, labels=labels)
        return x, self._in_order(y), weights

    def _in_order(self, y: Any) -> Any:
        """With `multi_label`, the columns of a table of 0 and 1 in the order of the labels, whatever is cut from it."""
        return by_labels(y, self.labels) if self.multi_label and y is not None and is_table(y) else y

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

    # === Calibration ===

    def calibrate(self, x: Any, y: Any = None, batch_size: int = 32) -> dict[str, Any]:
        """Set the temperature, or with `multi_label` the thresholds, by rows that were not trained on.

        The temperature is that with the lowest loss (Guo et al. 2017, "On Calibration of Modern Neural Networks"). It
        changes no label. Each threshold is that with the highest F1 of its label. Where there are too few rows, the
        value stays, and the log says so. What was set is saved with the task, and returned.
        """
        examples = self.labelled_examples(self._columns(x, y), held_out=True)
        logits, true = self.stack_logits(self.logits(examples, batch_size)), np.asarray(examples.targets)  # [n, C]
        check_not_nan(logits)
        if not self.multi_label:
            self.temperature = calibration.temperature_by(logits, true, self.temperature)
            return {"temperature": self.temperature}
        scores = ops.convert_to_numpy(ops.sigmoid(logits))
        found = calibration.thresholds_by(scores, true, self._thresholds())
        self.thresholds = tuple(found.values())
        return {"thresholds": found}

    def _thresholds(self) -> dict[str, float]:
        """The threshold of each label."""
        return dict(zip(self.labels, self.thresholds or (0.5,) * len(self.labels), strict=True))

    # === Answers ===

    def classify(self, texts: Any, batch_size: int = 32) -> Any:
        """A `Classification` for each text or pair; for a single text, one."""
        x, one = as_batch(texts)
        answers = self.answers(x, batch_size)
        return answers[0] if one else answers

    def decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[Classification]:
        of_texts = np.reshape(logits, (len(logits), len(self.labels)))  # [n, C]
        if self.multi_label:
            scores = ops.convert_to_numpy(ops.sigmoid(of_texts))
        else:
            with arrays():  # for one text, the call of a backend takes longer than everything else here
                scores = tf.nn.softmax(of_texts / self.temperature)
        named = [dict(zip(self.labels, row.tolist(), strict=True)) for row in scores]
        thresholds = self._thresholds() if self.multi_label else {}
        best = [self.labels[number] for number in scores.argmax(1)]
        sure = (scores.max(1) >= self.abstain_below).tolist()
        return [
            Classification(label if known else None, row[label], row, thresholds)
            for label, known, row in zip(best, sure, named, strict=True)
        ]

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        signatures = super().signatures(logits, seq_length)
        return signatures | classify_signatures(signatures["serving_default"], signatures.get("pair"))

    def answers_in_graph(self, logits: Any, texts: tuple[Any, ...]) -> dict[str, Any]:
        labels = tf.constant(self.labels)  # [C]
        scores = tf.sigmoid(logits) if self.multi_label else tf.nn.softmax(logits / self.temperature)  # [B, C]
        label, score = tf.gather(labels, tf.argmax(scores, axis=1)), tf.reduce_max(scores, axis=1)
        found = {
            "label": tf.where(score >= self.abstain_below, label, "") if self.abstain_below else label,
            "score": score,
            "labels": tf.repeat(labels[tf.newaxis], tf.shape(scores)[0], axis=0),  # [B, C]
            "scores": scores,
        }
        if self.multi_label:
            thresholds = tf.constant(list(self._thresholds().values()), tf.float64)  # [C]
            found["above"] = tf.cast(scores, tf.float64) >= thresholds  # [B, C]
        return found
