"""ChunkTable: the pieces of each different chunk of text, found once and looked up from then on."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from keras_bert.text.character_sets import RuleTable
from keras_bert.text.numpy_ragged import RaggedTensor
from keras_bert.text.plain_words import PlainNormalizer, PlainWordPiece

MOST_CHUNKS, MOST_CHARACTERS = 200_000, 4_000_000  # that are kept from one batch to the next


class ChunkTable:
    """Numbers chunks as they are met, and holds the pieces of all of them, one chunk after another.

    ids: of the pieces [P]. starts, ends: the characters [start, end) of the chunk that each piece came from [P]; only
    with `spans`, because they take time. rows: the places of a chunk's pieces in these, ragged [C, (words), (pieces)].
    """

    def __init__(self, normalizer: PlainNormalizer, wordpiece: PlainWordPiece, *, spans: bool) -> None:
        self._normalizer = normalizer
        self._wordpiece = wordpiece
        self._spans = spans
        self._clear()

    def _clear(self) -> None:
        self._numbers = _Numbers()
        self._pieces = RuleTable(self._wordpiece)  # the ids of the pieces of each word
        self._characters = 0
        self.ids, self.starts, self.ends = (_Growing("int32") for _ in range(3))
        self._places, self._words, self._chunks = _Growing("int64"), _Growing("int64", 0), _Growing("int64", 0)

    @property
    def rows(self) -> RaggedTensor:
        return RaggedTensor(RaggedTensor(self._places.array, self._words.array), self._chunks.array)

    def numbers(self, chunks: Sequence[str]) -> np.ndarray:
        """The number of each chunk. It is valid until the next call."""
        if len(self._numbers) > MOST_CHUNKS or self._characters > MOST_CHARACTERS:
            self._clear()
        found = np.fromiter(map(self._numbers.__getitem__, chunks), "int64", len(chunks))
        if self._numbers.new:
            try:
                self._add(self._numbers.new)
            except BaseException:  # an interrupt, after which half of what belongs together would be there
                self._clear()
                raise
            self._numbers.new = []
        return found

    def _add(self, chunks: list[str]) -> None:
        words = self._normalizer.words(chunks)
        flat = [self._pieces[word] for of_chunk in words for word in of_chunk]
        ids = np.fromiter(chain.from_iterable(flat), "int32")
        self._places.append(np.arange(len(ids)) + len(self.ids.array))
        self.ids.append(ids)
        if self._spans:
            spans = [
                span for chunk, of_chunk in zip(chunks, words, strict=True) for span in self._spans_of(chunk, of_chunk)
            ]
            starts, ends = np.array(spans, "int32").reshape(-1, 2).T
            self.starts.append(starts)
            self.ends.append(ends)
        for splits, rows in ((self._words, flat), (self._chunks, words)):
            splits.append(splits.array[-1] + np.cumsum(list(map(len, rows)), dtype="int64"))
        self._characters += sum(map(len, chunks))

    def _spans_of(self, chunk: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        origins = self._normalizer.origins(chunk)
        begin = 0
        for word in words:
            first = 0
            for last in self._wordpiece.ends(word, self._pieces[word]):
                part = origins[begin + first : begin + last]
                yield min(part), max(part) + 1  # marks that NFD moves are not in order
                first = last
            begin += len(word)


class _Numbers(dict[str, int]):
    """The number of each chunk. Those that were not asked for before are also in `new`."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, chunk: str) -> int:
        self.new.append(chunk)
        return self.setdefault(chunk, len(self))


class _Growing:
    """An array that grows at its end. Its memory doubles, so that what it has is seldom copied."""

    def __init__(self, dtype: str, *values: int) -> None:
        self.array = self._memory = np.array(values, dtype)

    def append(self, values: np.ndarray) -> None:
        old, size = len(self.array), len(self.array) + len(values)
        if size > len(self._memory):
            self._memory = np.empty(2 * size, self.array.dtype)
            self._memory[:old] = self.array
        self._memory[old:size] = values
        self.array = self._memory[:size]
