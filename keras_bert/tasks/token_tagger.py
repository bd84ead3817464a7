"""TokenTagger: entities in a text, or a tag for each of its words."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import Any

import keras
import numpy as np

from keras_bert.bert import Bert
from keras_bert.checks import check_choice, check_flag
from keras_bert.layers.norm import Dropout
from keras_bert.tasks.columns.text_columns import rows_of
from keras_bert.tasks.columns.value_columns import check_not_nan, weight_column
from keras_bert.tasks.decoding.decode_entities import decode_entities, entity_decoder, scheme_of, types_of
from keras_bert.tasks.decoding.entities import Entity, Run, encode, has_entities, misspelled_label, stray_label
from keras_bert.tasks.decoding.entity_table import entity_table
from keras_bert.tasks.decoding.in_batches import in_batches
from keras_bert.tasks.decoding.units import Units, in_rows, units_of
from keras_bert.tasks.decoding.whole_words import continues
from keras_bert.tasks.heads import check_bert, head_layer
from keras_bert.tasks.metrics import TokenAccuracy, span_scores, tag_scores
from keras_bert.tasks.metrics.tagging import Tags, scores_by_tag, tags_of_spans
from keras_bert.tasks.readers import Reading, Rows, tab_columns
from keras_bert.tasks.readers.conll import tagged_rows
from keras_bert.tasks.reports.findings import Findings
from keras_bert.tasks.reports.span_findings import entity_findings
from keras_bert.tasks.rows.class_weight import class_weights
from keras_bert.tasks.rows.labelled_rows import LabelledRows, packer_of
from keras_bert.tasks.rows.labels import (
    check_labels,
    label_ids,
    row_labels,
    sorted_labels,
    stored_labels,
    warn_of_missing,
    with_outside,
)
from keras_bert.tasks.rows.tag_targets import tag_targets
from keras_bert.tasks.signature import Logits, Signature, strings
from keras_bert.tasks.task import Task
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.row_ids import row_ids
from keras_bert.text.tensors import tf
from keras_bert.text.tokenized_rows import quickly

UNITS = ("word", "piece")

logger = logging.getLogger("keras_bert")


@keras.saving.register_keras_serializable("keras_bert")
class TokenTagger(Task):
    """A Dense layer on each token (Devlin et al. 2018, section 5.3): logits [B, S, C].

    `x` is a column of texts, or of lists of words. `y` has a list for each row: for words, a label (name or id) for
    each word; for texts, entities, each a tuple (start, end, type) in characters or an `Entity`. A text longer than the
    preprocessor's seq_length is read in parts.

    The first piece of a unit carries its label; its other pieces have weight 0. A unit is a word; texts are split into
    words at white space and punctuation. With unit="piece" each piece is a unit, for languages such as Korean, whose
    words end in particles that are not part of a name. A unit in which one entity ends and the next begins has the
    label of the first; the log has the number of such units.

    Args:
        labels: in the order of the logits. O, B-PER, I-PER (BIO; also BIOES and IO) are labels of entities; any others,
            such as NOUN, are a tag for each word.
        unit: "word" or "piece".
        whole_words: in a text, keep words such as U.N., Jean-Luc and AT&T whole, as annotated files do. `fit` on lists
            of words turns it on.
        freeze: train only the head.

    >>> import keras_bert
    >>> vocabulary = keras_bert.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "anna", "ran"])
    >>> config = keras_bert.BertConfig.from_size("tiny", vocab_size=6)
    >>> bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary))
    >>> task = TokenTagger(bert, labels=("O", "B-PER", "I-PER"))
    >>> history = task.fit([["Anna", "ran"]], [["B-PER", "O"]], epochs=1, verbose=0)
    >>> [entity.text for entity in task.tag("Anna ran")]
    [...]
    >>> [len(labels) for labels in task.tag_words([["Anna", "ran"]])]
    [2]
    """

    command: str = "tag"
    reader = staticmethod(tagged_rows)
    run_fields: tuple[str, ...] = ("class_weight", "label_smoothing")
    long: str = "windows"
    formats: tuple[str, ...] = ("conll", "conllu", "klue-ner")
    reading_fields: tuple[str, ...] = ("format", "encoding")
    usage: str = 'task.tag("a text")'
    heads: tuple[str, ...] = ("tagger",)
    example_ranks: tuple[int, ...] = (0, 1)
    length_axis: int | None = 0

    def __init__(
        self, bert: Bert, labels: Sequence[str], *, unit: str = "word", whole_words: bool = False,
        freeze: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        check_bert(bert)
        labels = check_labels(labels)
        check_choice("unit", unit, UNITS)
        check_flag("whole_words", whole_words)

        # === Layers ===
        dropout = Dropout(bert.config.hidden_dropout_prob, dtype=bert.dtype_policy, name="tagger_dropout")
        tagger = head_layer(len(labels), bert, name="tagger")

        # === Functional model ===
        logits = tagger(dropout(bert.output["sequence_output"]))  # [B, S, C]
        super().__init__(bert, bert.input, logits, freeze=freeze, name=name)

        # === Config ===
        self.labels = labels
        self.unit = unit
        self.whole_words = whole_words

    @classmethod
    def settings(cls, head: Any) -> dict[str, Any]:
        return {"labels": stored_labels(head, "tagger")}

    # === Files and the command line ===

    @classmethod
    def labels_of(cls, rows: Rows) -> Iterator[tuple[int, str]]:
        return row_labels(rows)

    @classmethod
    def check_rows(cls, rows: Rows) -> None:
        if not any(map(len, rows.y)):
            raise ValueError(
                f"No row of {rows.path} has an entity, so nothing can be learned. Use another file, or give the "
                f"--format that it has. Received: {len(rows)} rows"
            )
        super().check_rows(rows)

    @classmethod
    def from_rows(cls, bert: Bert, rows: Rows, settings: Any) -> "TokenTagger":
        labels = with_outside(sorted_labels(label for _, label in cls.labels_of(rows)))
        # A Korean particle is in one word with the name before it, but not a part of the name.
        return cls(bert, labels, unit="piece" if isinstance(rows.x[0], str) else "word")

    def read_lines(self, lines: Sequence[tuple[int, str]], reading: Reading) -> Any:
        return tab_columns(lines, 1)[0]

    def as_json(self, answer: list[Entity]) -> dict[str, Any]:
        return {"entities": [asdict(entity) for entity in answer]}

    @property
    def best_score(self) -> str:
        return "entity_f1" if has_entities(self.labels) else "accuracy"

    def report(self, y: Any, answers: list[list[Entity]]) -> dict[str, float]:
        return span_scores(rows_of(y, "list of entities"), answers)

    def report_logits(
        self, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any
    ) -> dict[str, float]:
        if not examples.decoding.given_words:
            return super().report_logits(y, examples, logits, **options)
        return tag_scores(*self._tags(y, examples, logits), labels=self.labels)

    def details(self, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> dict[str, Any]:
        """The scores of each type of entity, or of each tag of words."""
        return scores_by_tag(*self._tags(y, examples, logits), labels=self.labels)

    def _tags(self, y: Any, examples: LabelledRows, logits: list[np.ndarray]) -> tuple[Tags, Tags]:
        """The true and the answered tags of all words, or of all characters where `y` has entities."""
        if not examples.decoding.given_words:
            return tags_of_spans(rows_of(y, "list of entities"), self.decoded(examples, logits, len(y)))
        true = (label_ids(tags, self.labels) for tags in rows_of(y, "list of labels"))
        return [[self.labels[number] for number in ids] for ids in true], self.decode_words(examples, logits)

    def findings(self, x: Any, y: Any, examples: LabelledRows, logits: list[np.ndarray], **options: Any) -> Findings:
        return entity_findings(self, rows_of(y, "list of labels"), examples, logits)

    # === Training ===

    def _target_ids_below(self, x: dict[str, Any]) -> int | None:
        return len(self.labels)

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        packer = packer_of(self.bert)
        units = units_of(self.bert.preprocessor, x, self.unit, self.whole_words)
        rows = units.rows(packer.max_length - 2)
        if y is None:
            return LabelledRows([rows], packer, decoding=units)
        targets = tag_targets(units, rows_of(y, "list of labels"), self.labels, self.unit)
        weight = np.repeat(weight_column(sample_weight, len(units)), np.diff(units.splits))
        weight *= class_weights(class_weight, self.labels, targets[targets >= 0])[targets] * (targets >= 0)
        return LabelledRows(
            [rows],
            packer,
            targets=rows.with_values(np.maximum(targets, 0)),
            weights=rows.with_values(weight.astype("float32")),
            decoding=units,
        )

    def default_metrics(self) -> list[keras.metrics.Metric]:
        return [TokenAccuracy(name="accuracy")]

    def check_learnable(self, examples: LabelledRows) -> None:
        if (stray := stray_label(self.labels)) is not None:
            raise ValueError(
                f"The label {stray!r} is not 'O' and has no prefix such as 'B-', unlike other labels. Correct it, or "
                f"leave it out. Received: labels={self.labels}"
            )
        if (found := misspelled_label(self.labels)) is not None:
            label, right = found
            logger.warning(
                "The labels are learned as tags of single words. To learn entities, write O, B- and I- in capital "
                "letters and with a hyphen, such as %r in place of %r. Received: labels=%s",
                right, label, self.labels,
            )  # fmt: skip
        learned = np.unique(np.asarray(examples.targets.flat_values)[np.asarray(examples.weights.flat_values) > 0])
        if len(learned) < 2:
            raise ValueError(
                "All words have the same label, and two different labels are needed to learn anything. Add rows with "
                f"another label. Received: only {[self.labels[number] for number in learned]}"
            )
        warn_of_missing(self.labels, learned)
        self.whole_words = self.whole_words or examples.decoding.given_words

    # === Answers ===

    def tag(self, texts: Any, batch_size: int = 32) -> Any:
        """For one text a list of `Entity`, for a column a list of such lists.

        If the labels are tags of words, such as NOUN, each word is an `Entity`.

        Characters are those of the text as given; for a list of words, of `" ".join(words)`. A list of strings is a
        list of texts, so put the words of one text in a list: `[["Anna", "ran"]]`.
        """
        one = isinstance(texts, str)
        answers = self.answers([texts] if one else texts, batch_size)
        return answers[0] if one else answers

    def _answering(self, rows: list[Any]) -> AbstractContextManager[None]:
        return quickly(self.bert.preprocessor, rows)

    def tag_words(self, words: Any, batch_size: int = 32) -> list[list[str]]:
        """The label of each word of lists of words, one of `labels`."""
        examples = self._examples_to_answer(words)
        if not len(examples):
            return []
        if not examples.decoding.given_words:
            raise TypeError("tag_words was called with texts. Pass lists of words, or use `tag`. Received: texts")
        logits = self.logits(examples, batch_size)
        check_not_nan(logits)
        return self.decode_words(examples, logits)

    def decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[list[Entity]]:
        found = self._decode(examples, logits)
        types = types_of(self.labels)
        entities: list[list[Entity]] = [[] for _ in examples.decoding.texts]
        columns = (found[name].tolist() for name in ("row", "label", "text", "start", "end", "score"))
        for row, label, text, start, end, score in zip(*columns, strict=True):
            entities[row].append(Entity(types[label], text.decode(), start, end, score))
        return entities

    def decode_words(self, examples: LabelledRows, logits: list[np.ndarray]) -> list[list[str]]:
        """The label of each word, for examples that were given as lists of words."""
        units: Units = examples.decoding
        found = self._decode(examples, logits)
        if self.unit == "word" or not has_entities(self.labels):
            label = found["unit_label" if self.unit == "word" else "label"]
            rows = np.split(label, np.cumsum(units.words)[:-1])
            return [[self.labels[number] for number in row] for row in rows[: len(units)]]
        runs: list[list[Run]] = [[] for _ in units.texts]
        types, word = types_of(self.labels), units.word[units.first]  # of each unit
        columns = (found["row"], found["label"], word[found["first"]], word[found["last"]])
        for row, label, first, last in zip(*(column.tolist() for column in columns), strict=True):
            if not runs[row] or first >= runs[row][-1].end:  # of two entities in one word the first counts
                runs[row].append(Run(types[label], first, last + 1))
        return [encode(row, count, self.labels) for row, count in zip(runs, units.words, strict=True)]

    def _decode(self, examples: LabelledRows, logits: list[np.ndarray]) -> dict[str, np.ndarray]:
        units: Units = examples.decoding
        sizes = np.asarray(examples.segments[0].row_lengths())
        rows = [row[1 : 1 + size] for row, size in zip(logits, sizes, strict=True)]  # without [CLS] and [SEP]
        of_pieces = np.concatenate([*rows, np.zeros((0, len(self.labels)))], dtype="float32")  # [P, C]
        group = units.row if has_entities(self.labels) else units.tag_group
        with tf.device("CPU:0"):
            found = entity_decoder()(
                scheme_of(self.labels),
                of_pieces,
                units.row,
                units.start.astype("int32"),
                units.end.astype("int32"),
                units.first,
                group,
                tf.constant(units.texts, tf.string),
            )
        return {name: np.asarray(tensor) for name, tensor in found.items()}

    # === Export ===

    def signatures(self, logits: Logits, seq_length: int) -> dict[str, Signature]:
        """`type`, `text`, `start`, `end`, `score`, each [B, E], of which the first `count` [B] are entities.

        `truncated`, which every task has, is false: a text longer than `seq_length` is read in parts.
        """
        preprocessor = self.bert.preprocessor
        packer = replace(preprocessor.packer, max_length=seq_length)
        scheme, types = scheme_of(self.labels), types_of(self.labels)

        def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
            ids, start, end = preprocessor.tokenize_with_offsets(text)  # each [B, (words), (pieces)]
            pieces = without_words(ids)
            rows = in_rows(pieces, seq_length - 2)
            packed = packer.pack([rows], "longest")
            of_rows = in_batches(logits, packed, (None, len(types)))  # [R, S, C]
            inside = tf.sequence_mask(rows.row_lengths(), tf.shape(of_rows)[1] - 1)  # [R, S - 1], without [SEP]
            of_pieces = tf.boolean_mask(of_rows[:, 1:], inside)  # [P, C]
            number = tf.range(tf.size(pieces.values))  # of each piece
            word = row_ids(ids.values.row_lengths())  # the word of each piece
            is_unit = tf.concat([tf.ones_like(word[:1]), word[1:] - word[:-1]], 0) > 0  # [P]
            if self.whole_words:
                is_unit &= ~tf.gather(continues(preprocessor.vocabulary, ids, start, end), word)
            row = row_ids(pieces.row_lengths())
            found = decode_entities(
                scheme,
                of_pieces,
                row,
                start.flat_values,
                end.flat_values,
                is_unit if self.unit == "word" else tf.ones_like(is_unit),
                row if has_entities(self.labels) else number,
                text,
            )
            found["type"] = tf.gather(types, found["label"])
            return {**entity_table(found, text), "truncated": tf.zeros_like(text, tf.bool)}

        return {"serving_default": Signature(answer, strings("text"))}
