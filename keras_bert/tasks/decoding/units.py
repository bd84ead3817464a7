"""The units of texts that carry a label each, words or pieces, and the characters where they stand."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert.tasks.columns import column, rows_of
from keras_bert.tasks.decoding.entities import Run
from keras_bert.text.row_ids import row_ids
from keras_bert.text.tokenized_rows import tokenize

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True)
class Units:
    """The pieces of texts, one text after the other, and the units that they are of.

    texts: as given; of lists of words, `" ".join(words)`. ids: of all pieces. splits [n + 1]: where a text's begin.
    first: of each piece, whether it begins a unit. start, end: the characters of the text that a piece came from.
    word: the word of its text that a piece is of, from 0. given_words: whether the texts were lists of words.
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
        """The places among all pieces where the units of a text begin."""
        begin, end = self.splits[number : number + 2]
        return begin + np.flatnonzero(self.first[begin:end])

    @property
    def row(self) -> np.ndarray:
        """The text of each piece, int32 [P]."""
        return np.repeat(np.arange(len(self), dtype="int32"), np.diff(self.splits))

    @property
    def tag_group(self) -> np.ndarray:
        """The pieces that one tag is for: a given word, counted through all texts, or the piece alone, int32 [P]."""
        if not self.given_words:
            return np.arange(len(self.ids), dtype="int32")
        return (self.word + (np.cumsum(self.words) - self.words)[self.row]).astype("int32")

    def runs(self, number: int, entities: Any) -> tuple[list[Run], int]:
        """Entities in characters as runs of the units that share a character with each, and how many lost a unit.

        A unit is of the first entity that shares a character with it. The others have their further units, if any.
        """
        places = np.append(self.firsts(number), self.splits[number + 1])
        starts = self.start[places[:-1]]
        ends = np.array([self.end[a:b].max() for a, b in itertools.pairwise(places)], "int64")
        found: list[Run] = []
        read, taken, cut = 0, 0, 0  # the characters and the units that are passed
        for start, end, kind in sorted(self._spans(number, entities)):
            if start < read:
                raise ValueError(
                    f"Entities must not overlap. Leave one out. Received: {(start, end, kind)!r} begins within another "
                    f"at row {number}"
                )
            inside = np.flatnonzero((starts < end) & (ends > start))
            if not len(inside):
                raise ValueError(f"An entity must hold a word. Received: {(start, end, kind)!r} at row {number}")
            first, last = max(int(inside[0]), taken), int(inside[-1]) + 1
            cut += first > inside[0]
            if first < last:
                found.append(Run(kind, first, last))
            read, taken = end, last
        return found, cut

    def _spans(self, number: int, entities: Any) -> Iterator[tuple[int, int, str]]:
        if isinstance(entities, str) or not isinstance(entities, Iterable):
            raise TypeError(
                "Each text must have a list of entities, empty where there are none. "
                f"Received: {entities!r} at row {number}"
            )
        for entity in entities:
            match (entity.start, entity.end, entity.type) if hasattr(entity, "type") else entity:
                case int() | np.integer() as start, int() | np.integer() as end, str() as kind:
                    pass
                case _:
                    raise TypeError(
                        "An entity of a text must be a tuple (start, end, type) or an Entity; tags, one a word, are "
                        f"for lists of words. Received: {entity!r} at row {number}"
                    )
            if not 0 <= start < end <= len(self.texts[number]):
                raise ValueError(
                    f"An entity is (start, end, type), characters of a text of {len(self.texts[number])}. "
                    f"Received: {entity!r} at row {number}"
                )
            yield int(start), int(end), kind

    def rows(self, room: int) -> "tf.RaggedTensor":
        """Ragged ids of at most `room` pieces, enough rows for each text."""
        import tensorflow as tf

        with tf.device("CPU:0"):
            return split_rows(tf.RaggedTensor.from_row_splits(self.ids, self.splits, validate=False), room)


def split_rows(pieces: "tf.RaggedTensor", room: int) -> "tf.RaggedTensor":
    """The same pieces in rows of at most `room`: at least one row for each text."""
    import tensorflow as tf

    lengths = tf.cast(pieces.row_lengths(), tf.int32)
    parts = tf.maximum((lengths + room - 1) // room, 1)
    text = row_ids(parts)
    part = tf.range(tf.size(text)) - tf.gather(tf.cumsum(parts, exclusive=True), text)
    sizes = tf.minimum(tf.gather(lengths, text) - part * room, room)
    return tf.RaggedTensor.from_row_lengths(pieces.values, tf.cast(sizes, tf.int64), validate=False)


def units_of(preprocessor: Any, x: Any, unit: str) -> Units:
    """The units of a column of texts or of lists of words."""
    rows = rows_of(x, "text")
    if rows and not isinstance(rows[0], str | bytes) and hasattr(rows[0], "__iter__"):
        return _of_words(preprocessor, rows, unit)
    texts = column(rows)
    ids, start, end = tokenize(preprocessor, texts, offsets=True)  # each [n, (words), (pieces)]
    words = ids.row_lengths().numpy()  # of each text
    pieces = ids.values.row_lengths().numpy()  # of each word
    own_words = np.arange(len(pieces)) - np.repeat(np.cumsum(words) - words, words)
    first = np.ones(int(pieces.sum()), bool)
    if unit == "word":
        first = _begins(pieces)
    splits = np.append(0, np.cumsum(pieces))[np.append(0, np.cumsum(words))]
    flat = [part.flat_values.numpy() for part in (ids, start, end)]
    return Units(texts, flat[0], splits, first, flat[1], flat[2], np.repeat(own_words, pieces), False, words.tolist())


def _of_words(preprocessor: Any, rows: list[Any], unit: str) -> Units:
    words = [_words(row, number) for number, row in enumerate(rows)]
    flat = [word for row in words for word in row]
    ids, start, end = (part.merge_dims(1, 2) for part in tokenize(preprocessor, flat, offsets=True))
    lengths = ids.row_lengths().numpy()
    bare = np.flatnonzero(lengths == 0)  # of control characters and the like: [UNK], so that no word is lost
    at = ids.row_splits.numpy()[bare]
    sizes = np.array([len(word) for word in flat], "int32")
    begins = np.concatenate([np.zeros(0), *map(_starts, words)]).astype("int32")  # of each word in its text
    values = np.insert(ids.values.numpy(), at, preprocessor.vocabulary["[UNK]"])
    starts = np.insert(start.values.numpy(), at, 0)
    ends = np.insert(end.values.numpy(), at, 0)
    lengths = np.maximum(lengths, 1)
    starts[np.cumsum(lengths) - lengths] = 0  # a word is told as it was given, with what leaves no piece
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
                f"A word must not be empty. Leave it out. Received: {word!r}, word {place} of row {number}"
            )
    return words


def _starts(words: list[str]) -> np.ndarray:
    sizes = np.array([len(word) + 1 for word in words], "int64")
    return np.cumsum(sizes) - sizes


def _begins(lengths: np.ndarray) -> np.ndarray:
    """Of runs of these lengths laid end to end, none empty, the places where one begins."""
    first = np.zeros(int(lengths.sum()), bool)
    first[np.cumsum(lengths) - lengths] = True
    return first
