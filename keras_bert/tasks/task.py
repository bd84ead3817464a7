"""Task: what all tasks share. A head on a `Bert`, trained on text and asked in text."""

import dataclasses
import logging
import os
from typing import Any

import keras
import numpy as np

from keras_bert.tasks.columns.text_columns import check_lengths, column
from keras_bert.tasks.columns.value_columns import weight_column
from keras_bert.tasks.file_task import FileTask
from keras_bert.tasks.losses.label_losses import SmoothedCrossentropy
from keras_bert.tasks.losses.teacher_losses import SOFT_LOSSES, squares
from keras_bert.tasks.metrics.by_label import one_sided
from keras_bert.tasks.readers import Reading, Rows
from keras_bert.tasks.reports.findings import Findings, plain_findings
from keras_bert.tasks.reports.write_report import write_report
from keras_bert.tasks.rows.labelled_rows import LabelledRows, packer_of
from keras_bert.tasks.rows.targets import check_returned, checked_targets
from keras_bert.tasks.signature import Logits, Signature, checked_answers, pack_texts, text_signatures
from keras_bert.text.packing import Packer
from keras_bert.text.tokenized_rows import pieces

logger = logging.getLogger("keras_bert")


class Task(FileTask):
    """A functional model from the encoder's inputs to logits, which takes text in `fit`, `evaluate` and `predict`.

    `fit(x, y)` takes columns: lists, arrays, columns of pandas or datasets, string tensors. Instead of both it takes a
    tf.data of (x, y); a whole table (of pandas or datasets, a dict of columns, a list of dicts) whose columns have the
    names in `table`; the path of a file (a table with the columns text and label, CoNLL, or SQuAD's JSON); or the rows
    that a reader in `tasks/readers` returns. Inputs that are packed already, a dict or a tf.data of dicts, go to Keras
    as they are. Without `compile`, `fit` uses the paper's settings, see `FinetuneRecipe`. `predict` returns logits in
    the order of the examples.
    `save(path)` and `keras.models.load_model` keep the vocabulary, the labels and every setting.

    `task.bert` is the encoder. After `task.bert.freeze(blocks=6)` or `task.bert.enable_lora(8)`, call `compile` again.

    **A task of your own** is a subclass in any file, registered with `keras.saving.register_keras_serializable`. It has

    - `__init__(self, bert, *, freeze=False, name=None)`, which makes the logits from `bert.output["pooled_output"]` or
      `bert.output["sequence_output"]` and ends in `super().__init__(bert, bert.input, logits, freeze=freeze,
      name=name)`; its other arguments are kept in attributes of their names, or `get_config` returns them;
    - `default_loss`, unless `y` is the id of a label; `default_metrics` and `target_scores`, if the log is to have more
      than that loss;
    - `decode`, which turns logits into answers, and `answers_in_graph`, which does the same in an export.

    By default a row of `x` is a text, or two where `x` is a tuple of two columns; write `examples` and `signatures` for
    anything else. `report` and `best_score` say how good answers are, and `findings` what `write_report` shows of them.
    The command line uses `command`, `formats`, `read_rows`, `from_rows`, `labels_of`, `answers_as_json` and `usage`.
    `examples/own_task.py` is such a task.

    >>> import keras_bert, tempfile
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = keras_bert.TextClassifier(bert, labels=("negative", "positive"))
    >>> isinstance(task, keras_bert.Task)
    True
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     task.save(f"{folder}/task.keras")
    ...     keras_bert.TextClassifier.load(f"{folder}/task.keras").labels
    ('negative', 'positive')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = task.write_report(f"{folder}/report", ["good", "bad"], ["positive", "negative"])
    >>> report["rows"]
    2
    >>> task.scores_by_label(["good", "bad"], ["positive", "negative"])["positive"]["support"]
    1
    >>> task.compile(keras_bert.AdamW(2e-5), task.default_loss(), weighted_metrics=task.default_metrics())
    """

    has_even_labels: bool = True  # whether label_smoothing can spread a target over all labels

    # === Rows ===

    @property
    def other_names(self) -> tuple[str, ...]:
        """The names of the columns that the model reads beside the text."""
        return ()

    @property
    def packer(self) -> Packer:
        """What makes a row of the model's inputs from the ids of its texts."""
        return packer_of(self.bert)

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        """The tokenized rows of columns, with targets and weights if `y` is given."""
        texts = [column(values) for values in (x if isinstance(x, tuple) else (x,))]
        if len(texts) > 2:
            raise ValueError(
                f"x has {len(texts)} columns, but a row is a text or a pair. Pass one or two columns. Received: "
                f"{len(texts)} columns"
            )
        check_lengths(**dict(zip(("texts", "second_texts"), texts, strict=False)))
        segments = [pieces(self.bert.preprocessor, one) for one in texts]
        return self.with_targets(LabelledRows(segments, self.packer), y, sample_weight, class_weight)

    def with_targets(self, examples: LabelledRows, y: Any, sample_weight: Any, class_weight: Any) -> LabelledRows:
        """The same examples with one target and one weight each, if `y` is given."""
        if y is None:
            return examples
        targets = checked_targets(self, self.target_ids(y), own_loss=not self._keeps("default_loss"))
        by_class = self.class_weight_ids(class_weight, targets)
        check_lengths(x=examples, y=targets)
        weight = weight_column(sample_weight, len(targets))
        if by_class is not None:
            weight *= np.array([by_class[target] for target in targets.tolist()], "float32")
        return dataclasses.replace(examples, targets=targets, weights=weight)

    def held_out_examples(self, x: Any, y: Any, sample_weight: Any = None) -> LabelledRows:
        """The same for rows that are scored: all of them, those that cannot be learned with weight 0."""
        return self.examples(x, y, sample_weight)

    def target_ids(self, y: Any) -> Any:
        """`y` as numbers, such as label names turned into ids."""
        return y

    @classmethod
    def _keeps(cls, method: str) -> bool:
        """Whether a subclass leaves this method as it is here."""
        return getattr(cls, method) is getattr(Task, method)

    def class_weight_ids(self, class_weight: Any, targets: Any = None) -> dict[int, float] | None:
        """`class_weight` by label id, for rows that have one; `targets` are those to balance."""
        if class_weight is not None:
            raise ValueError(
                f"{type(self).__name__} does not have one label for each text, but class_weight needs that. Give "
                f"sample_weight. Received: class_weight={class_weight!r}"
            )
        return None

    def check_learnable(self, examples: LabelledRows) -> None:
        """Refuse to train if nothing can be learned."""

    def check_batch_size(self, examples: LabelledRows, batch_size: int) -> None:
        """Refuse to train in batches of this many rows, if nothing can be learned from them."""

    def start_head(self, targets: Any) -> dict[str, float]:
        """Bring a new head close to the targets. Returns the `layer_rates` of the optimizer that is to train it."""
        return {}

    # === Loss and scores ===

    def default_loss(self) -> keras.losses.Loss:
        """The right loss for `compile`: the mean over everything that has a weight."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")

    @property
    def weighs_labels_in_loss(self) -> bool:
        """Whether class_weight is a matter of `recipe_loss`, and not of the weights of rows."""
        return False

    def recipe_loss(self, label_smoothing: float = 0.0, class_weight: Any = None, targets: Any = None) -> Any:
        """`default_loss` with a recipe's options. A task that `weighs_labels_in_loss` uses the last two."""
        loss = self.default_loss()
        check_returned(self, "default_loss", loss, "a loss")
        if not label_smoothing:
            return loss
        if not self.has_even_labels or type(loss) is not keras.losses.SparseCategoricalCrossentropy:
            raise ValueError(
                f"{type(self).__name__} has no labels to smooth. Use label_smoothing=0. "
                f"Received: label_smoothing={label_smoothing}"
            )
        return SmoothedCrossentropy(label_smoothing=label_smoothing)

    def soft_loss(self, theirs: Any, ours: Any, temperature: float) -> Any:
        """How far logits are from a teacher's, for each target: for ids and labels the KL divergence, else squares."""
        measure = SOFT_LOSSES.get(type(self.default_loss()), squares)
        return measure(theirs, ours, temperature)

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """What `fit` shows if the task was not compiled: accuracy, unless the task has a loss of its own."""
        if self._keeps("default_metrics") and not self._keeps("default_loss"):
            return []
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def target_scores(self, y: Any, logits: Any) -> dict[str, Any]:
        """What `default_metrics` averages, for each target. Training on several devices needs it."""
        if self._keeps("target_scores") and not self._keeps("default_loss"):
            return {}
        return {"accuracy": keras.metrics.sparse_categorical_accuracy(y, logits)}

    @property
    def best_score(self) -> str:
        """The name of the score, in `report` or else in the metrics, by which an epoch of a run is the best."""
        return "accuracy"

    def best_score_of(self, examples: LabelledRows) -> str:
        """The same for these held-out rows, where the scores depend on what the rows hold."""
        return self.best_score

    def report(self, y: Any, answers: Any) -> dict[str, float]:
        """The scores of answers, as people report them for such a task; `y` as `fit` takes it."""
        return {}

    def report_logits(
        self, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any
    ) -> dict[str, float]:
        """The report of the answers in these logits."""
        found = self.report(y, self.decoded(examples, logits, len(y)), **options)
        if not isinstance(found, dict):
            raise TypeError(
                f"{type(self).__name__}.report must return the scores by name. Return a dict, such as "
                f'{{"accuracy": 0.9}}. Received: {found!r}'
            )
        return found

    def details(self, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> dict[str, Any]:
        """What else is known of the answers in these logits, as JSON can hold it.

        "labels" are the scores of each label, and "labels_of" is what they count, if not rows.
        """
        return {}

    def scores_by_label(self, x: Any, y: Any = None, *, batch_size: int = 32) -> dict[str, dict[str, float]]:
        """Precision, recall and F1 of each label, how many rows have it (support), and how many are predicted to.

        For a tagger, these are of each type of entity or each tag, and count entities or words. The log warns if one
        label is predicted for all rows, or a label that rows have is never predicted. `x` and `y` are as in `evaluate`.
        """
        if self._keeps("details"):
            raise ValueError(
                f"{type(self).__name__} has no labels to score. Call `evaluate` for its other scores. Received: "
                f"{type(self).__name__}.scores_by_label"
            )
        x, y, _ = self._columns(x, y)
        examples = self.labelled_examples((x, y, None), held_out=True)
        details = self.details(y, examples, self.logits(examples, batch_size))
        for sentence in one_sided(details, len(examples)):
            logger.warning("%s", sentence)
        return details.get("labels", {})

    def findings(self, x: Any, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> Findings:
        """What `write_report` shows of rows beside their scores; by default the rows with the highest loss."""
        return plain_findings(self, x, y, examples, logits)

    @classmethod
    def report_options(cls, reading: Reading) -> dict[str, Any]:
        """Options of `report` that depend on the file that `y` comes from."""
        return {}

    def write_report(
        self,
        directory: str | os.PathLike,
        x: Any,
        y: Any = None,
        *,
        train: Any = None,
        batch_size: int = 32,
        **options: Any,
    ) -> dict[str, Any]:
        """Write a page about labelled rows and the mistakes in them, `index.html`, and its numbers, `report.json`.

        The page needs no network and no other file. It has what the task finds in its own rows: for a classifier a
        confusion matrix, calibration and the most confident mistakes with the pieces that mattered. Returns the
        numbers.

        Args:
            directory: a new or an empty folder.
            x, y: as `evaluate` takes them.
            train: the training rows, as x. The page then lists the rows that are in both, or nearly so.
            options: of `report`.
        """
        x, train = self._opened(x), self._opened(train, labels=False)
        columns = self._columns(x, y)[:2]
        training = None if train is None else self._columns(train, labels=False)[0]
        places = [(rows.unit, rows.ids) if isinstance(rows, Rows) and rows.ids else None for rows in (x, train)]
        file = os.path.basename(x.path) if isinstance(x, Rows) else ""
        return write_report(
            self, directory, columns, training, places, file=file, batch_size=batch_size, options=options
        )

    # === Answers ===

    def decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[Any]:
        """The answer to each row of `x`, from `logits(examples)`; by default the logits.

        If this needs more than the logits, such as the texts, `examples` puts it into the attribute `decoding`.
        """
        return list(logits)

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        """What the exported task answers: functions in TensorFlow ops, by the names of their signatures.

        By default for tasks whose `x` is a column of texts, or of pairs: `serving_default` and `pair` return what
        `answers_in_graph` returns, and `truncated`.

        logits: runs the exported model on packed rows. seq_length: the longest row.
        """
        packer = self.packer

        def answer(*texts: Any) -> dict[str, Any]:
            rows, truncated = pack_texts(self.bert.preprocessor, texts, seq_length, packer=packer)
            return {**checked_answers(self, logits(rows), texts), "truncated": truncated}

        return text_signatures(answer)

    def answers_in_graph(self, logits: Any, texts: tuple[Any, ...]) -> dict[str, Any]:
        """Answers by name, each a tensor [B, ...] in TensorFlow ops, to one or two columns of texts."""
        return {"logits": logits}
