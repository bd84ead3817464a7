"""TokenTagger: entities in a text, or a tag for each of its words."""

import itertools
import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.bert import Bert
from keras_bert.layers.norm import Dropout
from keras_bert.tasks.columns import check_lengths, rows_of, weights
from keras_bert.tasks.decoding.entities import Entity, Run, decode, encode, has_entities, stray_label
from keras_bert.tasks.decoding.units import Units, units_of
from keras_bert.tasks.heads import check_bert, head_layer
from keras_bert.tasks.labelled_rows import LabelledRows, packer_of
from keras_bert.tasks.labels import check_labels, class_weights, label_ids
from keras_bert.tasks.task import Task

UNITS = ("word", "piece")
logger = logging.getLogger("keras_bert")


@keras.saving.register_keras_serializable("keras_bert")
class TokenTagger(Task):
    """A Dense layer on each token (Devlin et al. 2018, section 5.3): logits [B, S, C].

    `x` is a column of texts, or of lists of words, which are kept as words. `y` has for lists of words a list of
    labels, names or ids, one a word; for texts a list of entities, each a tuple (start, end, type) in characters or an
    `Entity`. A text longer than the model is read in parts.

    The rule for pieces: the first piece of a unit carries its label, the others weigh nothing. A unit is a word, cut at
    white space and punctuation where texts are no lists; or, with unit="piece", every piece is one, for languages whose
    words end in particles that are no part of a name (Korean). Where a unit holds the end of one entity and the
    begin of the next, it has the label of the first; the log tells how often that is.

    Arguments: labels: in the order of the logits. O, B-PER, I-PER (BIO; BIOES and IO too) tell entities, any others,
    such as NOUN, are a tag for each word. freeze: train the head alone.

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

    heads: tuple[str, ...] = ("tagger",)
    example_ranks: tuple[int, ...] = (0, 1)
    length_axis: int | None = 0

    def __init__(
        self, bert: Bert, labels: Sequence[str], *, unit: str = "word", freeze: bool = False, name: str | None = None
    ) -> None:
        check_bert(bert)
        labels = check_labels(labels)
        if unit not in UNITS:
            raise ValueError(f"unit must be one of {UNITS}. Received: unit={unit!r}")

        # === Layers ===
        dropout = Dropout(bert.config.hidden_dropout_prob, dtype=bert.dtype_policy, name="tagger_dropout")
        tagger = head_layer(len(labels), bert, name="tagger")

        # === Functional model ===
        logits = tagger(dropout(bert.output["sequence_output"]))  # [B, S, C]
        super().__init__(bert, bert.input, logits, freeze=freeze, name=name)

        # === Config ===
        self.labels = labels
        self.unit = unit

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "labels": list(self.labels), "unit": self.unit}

    @classmethod
    def settings(cls, head: Any) -> dict[str, Any]:
        count = head.weights["tagger/bias"].shape[0]
        return {"labels": head.labels or tuple(f"LABEL_{number}" for number in range(count))}

    # === Training ===

    def examples(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> LabelledRows:
        packer = packer_of(self.bert)
        units = units_of(self.bert.preprocessor, x, self.unit)
        rows, _ = units.rows(packer.max_length - 2)
        if y is None:
            return LabelledRows([rows], packer)
        targets = self._targets(units, rows_of(y, "list of labels"))
        weight = np.repeat(weights(sample_weight, len(units)), np.diff(units.splits))
        weight *= class_weights(class_weight, self.labels)[targets] * (targets >= 0)
        return LabelledRows(
            [rows],
            packer,
            targets=rows.with_values(np.maximum(targets, 0)),
            weights=rows.with_values(weight.astype("float32")),
        )

    def check_learnable(self, examples: LabelledRows) -> None:
        if (stray := stray_label(self.labels)) is not None:
            raise ValueError(
                "Where labels tell entities, each must be O or have a prefix, as B-PER has. Mend it, or leave it out. "
                f"Received: {stray!r} among {self.labels}"
            )
        learned = np.unique(examples.targets.flat_values.numpy()[examples.weights.flat_values.numpy() > 0])
        if len(learned) < 2:
            raise ValueError(
                "There must be at least two different labels to learn from. "
                f"Received: {[self.labels[number] for number in learned]} alone"
            )

    def _targets(self, units: Units, y: list[Any]) -> np.ndarray:
        """The label of each piece, -1 where it weighs nothing, int32 [all pieces]."""
        check_lengths(texts=range(len(units)), labels=y)
        found = np.full(units.splits[-1], -1, "int32")
        cuts: list[int] = []  # the row of each entity that lost a unit
        for number, given in enumerate(y):
            pieces = units.firsts(number)  # where the units of this text begin
            if not units.given_words:
                runs, cut = units.runs(number, given)
                names: Any = encode(runs, len(pieces), self.labels)
                cuts += [number] * cut
            else:
                if isinstance(given, str) or len(given) != units.count_words(number):
                    raise ValueError(
                        f"Each word must have a label. Received: {units.count_words(number)} words and "
                        f"{given!r} at row {number}"
                    )
                names = given
                if self.unit == "piece":
                    names = self._of_pieces(units.word_of_unit(number), label_ids(given, self.labels, f"row {number}"))
            found[pieces] = label_ids(names, self.labels, where=f"row {number}")
        if cuts:
            logger.warning(
                "%d of %d entities share a %s with the one before, whose label it has%s. At rows: %s",
                len(cuts),
                sum(map(len, y)),
                self.unit,
                "; with unit='piece' fewer do" if self.unit == "word" else "",
                ", ".join(map(str, cuts[:5])) + (", ..." if len(cuts) > 5 else ""),
            )
        return found

    def _of_pieces(self, word: np.ndarray, ids: np.ndarray) -> list[str]:
        """The labels of pieces out of those of their words."""
        names = [self.labels[number] for number in ids]
        if not has_entities(self.labels):
            return [names[number] for number in word]
        runs = [
            Run(run.type, int(np.searchsorted(word, run.start)), int(np.searchsorted(word, run.end)))
            for run in decode(names)
        ]
        return encode(runs, len(word), self.labels)

    # === Answers ===

    def tag(self, texts: Any, batch_size: int = 32) -> Any:
        """The entities of each text, a list of `Entity`; for labels that tell none, each word with its tag is one.

        Characters are those of the text as given, or, of a list of words, of `" ".join(words)`. Of one text, the one
        list; a list of strings is a list of texts, so wrap the words of one text: `[["Anna", "ran"]]`.
        """
        one = isinstance(texts, str)
        x = [texts] if one else texts
        units, names, scores = self._predict_units(x, batch_size)
        found = [self._entities(units, number, *row) for number, row in enumerate(zip(names, scores, strict=True))]
        return found[0] if one else found

    def tag_words(self, words: Any, batch_size: int = 32) -> list[list[str]]:
        """The label of each word of lists of words, as they stand in `labels`."""
        units, names, _ = self._predict_units(words, batch_size)
        if not units.given_words:
            raise TypeError("tag_words takes lists of words. For texts, use tag. Received: texts")
        if self.unit == "word":
            return names
        found = []
        for number, row in enumerate(names):
            word = units.word_of_unit(number)
            if has_entities(self.labels):
                runs = {(run.type, int(word[run.start]), int(word[run.end - 1]) + 1) for run in decode(row)}
                ordered, taken = [], 0
                for run in sorted(runs, key=lambda run: run[1:]):
                    if run[1] >= taken:  # two entities in one word: the first is told
                        ordered.append(Run(*run))
                        taken = run[2]
                found.append(encode(ordered, units.count_words(number), self.labels))
            else:
                found.append([row[place] for place in np.searchsorted(word, range(units.count_words(number)))])
        return found

    def _predict_units(self, x: Any, batch_size: int) -> tuple[Units, list[list[str]], list[np.ndarray]]:
        """For each text the label of each unit, and its probability."""
        packer = packer_of(self.bert)
        units = units_of(self.bert.preprocessor, x, self.unit)
        rows, _ = units.rows(packer.max_length - 2)
        parts = self.logits(LabelledRows([rows], packer), batch_size)
        kept = zip(parts, rows.row_lengths().numpy(), strict=True)
        flat = [part[1 : 1 + length] for part, length in kept]  # without [CLS] and [SEP]
        logits = np.concatenate([*flat, np.zeros((0, len(self.labels)), "float32")])  # [all pieces, C]
        probabilities = ops.convert_to_numpy(ops.softmax(logits)) if len(logits) else logits
        names, scores = [], []
        for number in range(len(units)):
            own = probabilities[units.firsts(number)]
            names.append([self.labels[best] for best in own.argmax(-1)])
            scores.append(own.max(-1) if len(own) else np.zeros(0, "float32"))
        return units, names, scores

    def _entities(self, units: Units, number: int, names: list[str], scores: np.ndarray) -> list[Entity]:
        if has_entities(self.labels):
            runs = decode(names)
        elif self.unit == "piece" and units.given_words:
            word = units.word_of_unit(number)
            edges = np.searchsorted(word, range(units.count_words(number) + 1))
            runs = [Run(names[start], int(start), int(end)) for start, end in itertools.pairwise(edges)]
        else:
            runs = [Run(name, place, place + 1) for place, name in enumerate(names)]
        found = []
        for kind, first, last in runs:
            start, end = units.characters(number, first, last)
            text = units.texts[number][start:end]
            found.append(Entity(kind, text, start, end, float(scores[first:last].mean())))
        return found
