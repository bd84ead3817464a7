"""Units: the words or pieces of texts that have a label each, and their characters."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.tasks.columns.text_columns import column, rows_of
from keras_bert.tasks.decoding.entities import Run
from keras_bert.tasks.decoding.whole_words import continues
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.row_ids import row_ids
from keras_bert.text.tensors import tf
from keras_bert.text.tokenized_rows import tokenize


@dataclass(frozen=True)
class Units:
    """The pieces of texts, one text after another, and the units to which they belong.

    texts: as given, or `" ".join(words)` for lists of words. ids: of all pieces [P]. splits: the first piece of each
    text [n + 1]. first: whether a piece begins a unit [P]. start, end: the characters of a piece in its text [P].
    word: the number of a piece's word in its text [P]. given_words: whether the texts were lists of words.
    words: the number of words of each text.
    """

    texts: list[str]
    ids: np.ndarray
    splits: np.ndarray
    first: np.ndarray
    start: np.ndarray
    end: np.ndarray
    word: np.ndarray
    given_words: bool
    words: list[int]

    def __len__(self) -> int:
        return len(self.texts)

    def firsts(self, number: int) -> np.ndarray:
        """The pieces with which the units of a text begin, counted through all texts."""
        begin, end = self.splits[number : number + 2]
        return begin + np.flatnonzero(self.first[begin:end])

    @property
    def row(self) -> np.ndarray:
        """The text of each piece, int32 [P]."""
        return np.repeat(np.arange(len(self), dtype="int32"), np.diff(self.splits))

    @property
    def tag_group(self) -> np.ndarray:
        """The pieces that one tag is for: a given word, counted through all texts, or a single piece, int32 [P]."""
        if not self.given_words:
            return np.arange(len(self.ids), dtype="int32")
        return (self.word + (np.cumsum(self.words) - self.words)[self.row]).astype("int32")

    def runs(self, number: int, entities: Any) -> tuple[list[Run], int, list[tuple[str, str]]]:
        """Entities given in characters as runs of units, how many entities lost a unit, and those with wider units.

        A unit belongs to the first entity that shares a character with it. Later entities keep their other units. An
        entity is in the last list, with the text of its units, if these have characters before or after it.
        """
        places = np.append(self.firsts(number), self.splits[number + 1])
        starts = self.start[places[:-1]]
        ends = np.array([self.end[a:b].max() for a, b in itertools.pairwise(places)], "int64")
        found: list[Run] = []
        wider: list[tuple[str, str]] = []
        text = self.texts[number]
        read, taken, cut = 0, 0, 0  # characters and units up to here are used
        for start, end, kind in sorted(self._spans(number, entities)):
            if start < read:
                raise ValueError(
                    f"Entities must not overlap, but two do at row {number}. Leave one out. "
                    f"Received: {(start, end, kind)!r}, which begins within another, at row {number}"
                )
            inside = np.flatnonzero((starts < end) & (ends > start))
            if not len(inside):
                raise ValueError(
                    f"An entity at row {number} does not hold a word. Correct its start and end. "
                    f"Received: {(start, end, kind)!r} at row {number}"
                )
            first, last = max(int(inside[0]), taken), int(inside[-1]) + 1
            cut += first > inside[0]
            if first < last:
                found.append(Run(kind, first, last))
                if starts[first] < start or ends[last - 1] > end:
                    wider.append((text[start:end], text[starts[first] : ends[last - 1]]))
            read, taken = end, last
        return found, cut, wider

    def _spans(self, number: int, entities: Any) -> Iterator[tuple[int, int, str]]:
        if isinstance(entities, str) or not isinstance(entities, Iterable):
            raise TypeError(
                f"The text at row {number} must have a list of entities. Give an empty list if it has no entity. "
                f"Received: {entities!r} at row {number}"
            )
        for entity in entities:
            match (entity.start, entity.end, entity.type) if hasattr(entity, "type") else entity:
                case int() | np.integer() as start, int() | np.integer() as end, str() as kind:
                    pass
                case _:
                    raise TypeError(
                        f"An entity at row {number} is not a tuple (start, end, type) or an Entity. To label every "
                        f"word, give each text as a list of words. Received: {entity!r} at row {number}"
                    )
            if not 0 <= start < end <= len(self.texts[number]):
                raise ValueError(
                    f"An entity at row {number} is not a part of its text of {len(self.texts[number])} characters. Its "
                    "start must be at least 0 and below its end, and its end at most the length of the text. Received: "
                    f"{entity!r} at row {number}"
                )
            yield int(start), int(end), kind

    def rows(self, room: int) -> "tf.RaggedTensor":
        """Ragged ids of at most `room` pieces, enough rows for each text."""
        with tf.device("CPU:0"):
            return in_rows(tf.RaggedTensor.from_row_splits(self.ids, self.splits, validate=False), room)


def in_rows(pieces: "tf.RaggedTensor", room: int) -> "tf.RaggedTensor":
    """The same pieces in rows of at most `room`: at least one row for each text."""
    lengths = tf.cast(pieces.row_lengths(), tf.int32)
    parts = tf.maximum((lengths + room - 1) // room, 1)
    text = row_ids(parts)
    part = tf.range(tf.size(text)) - tf.gather(tf.cumsum(parts, exclusive=True), text)
    sizes = tf.minimum(tf.gather(lengths, text) - part * room, room)
    return tf.RaggedTensor.from_row_lengths(pieces.values, tf.cast(sizes, tf.int64), validate=False)


def units_of(preprocessor: Any, x: Any, unit: str, whole_words: bool = False) -> Units:
    """The units of a column of texts or of lists of words; with `whole_words`, U.N. in a text is one word."""
    rows = rows_of(x, "text")
    if rows and not isinstance(rows[0], str | bytes) and hasattr(rows[0], "__iter__"):
        return _of_words(preprocessor, rows, unit)
    texts = column(rows)
    ids, start, end = tokenize(preprocessor, texts, offsets=True)  # each [n, (words), (pieces)]
    words = np.asarray(ids.row_lengths())  # of each text
    pieces = np.asarray(ids.values.row_lengths())  # of each word
    own_words = np.arange(len(pieces)) - np.repeat(np.cumsum(words) - words, words)
    first = np.ones(int(pieces.sum()), bool)
    if unit == "word":
        first = _begins(pieces)
        if whole_words:
            with tf.device("CPU:0"):
                joined = np.asarray(continues(preprocessor.vocabulary, ids, start, end))  # of each word
            first[np.flatnonzero(first)[joined]] = False
    splits = np.append(0, np.cumsum(pieces))[np.append(0, np.cumsum(words))]
    flat = [np.asarray(part.flat_values) for part in (ids, start, end)]
    return Units(texts, flat[0], splits, first, flat[1], flat[2], np.repeat(own_words, pieces), False, words.tolist())


def _of_words(preprocessor: Any, rows: list[Any], unit: str) -> Units:
    words = [_words(row, number) for number, row in enumerate(rows)]
    flat = [word for row in words for word in row]
    ids, start, end = (without_words(part) for part in tokenize(preprocessor, flat, offsets=True))
    lengths = np.asarray(ids.row_lengths())
    bare = np.flatnonzero(lengths == 0)  # words of control characters and the like become [UNK], so that none is lost
    at = np.asarray(ids.row_splits)[bare]
    sizes = np.array([len(word) for word in flat], "int32")
    begins = np.concatenate([np.zeros(0), *map(_starts, words)]).astype("int32")  # of each word in its text
    values = np.insert(np.asarray(ids.values), at, preprocessor.vocabulary["[UNK]"])
    starts = np.insert(np.asarray(start.values), at, 0)
    ends = np.insert(np.asarray(end.values), at, 0)
    lengths = np.maximum(lengths, 1)
    starts[np.cumsum(lengths) - lengths] = 0  # a word keeps all its characters, even those without a piece
    ends[np.cumsum(lengths) - 1] = sizes
    counts = np.array([len(row) for row in words], "int64")
    number = np.concatenate([np.zeros(0), *map(np.arange, counts)]).astype("int64")
    offset = np.repeat(begins, lengths)
    return Units(
        texts=[" ".join(row) for row in words],
        ids=values,
        splits=np.append(0, np.cumsum(lengths))[np.append(0, np.cumsum(counts))],
        first=_begins(lengths) if unit == "word" else np.ones(len(values), bool),
        start=starts + offset,
        end=ends + offset,
        word=np.repeat(number, lengths),
        given_words=True,
        words=counts.tolist(),
    )


def _words(row: Any, number: int) -> list[str]:
    words = column(row, f"word of row {number}")
    for place, word in enumerate(words):
        if not word.strip():
            raise ValueError(
                f"Word {place} of row {number} is empty; both are counted from 0. Leave it out. Received: {word!r}"
            )
    return words


def _starts(words: list[str]) -> np.ndarray:
    sizes = np.array([len(word) + 1 for word in words], "int64")
    return np.cumsum(sizes) - sizes


def _begins(lengths: np.ndarray) -> np.ndarray:
    """Where a run begins, for runs of these lengths, none of them empty, that follow one another."""
    first = np.zeros(int(lengths.sum()), bool)
    first[np.cumsum(lengths) - lengths] = True
    return first
