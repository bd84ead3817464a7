"""Texts to pieces and back without TensorFlow: the ids and offsets are those of `tokenizer.Tokenizer`.

A text is cleaned and split at white space into chunks, and a table has the pieces of each chunk.
"""

import threading
from functools import cached_property
from typing import Any

import numpy as np

from keras_bert.text.chunk_table import ChunkTable
from keras_bert.text.numpy_ragged import RaggedTensor, splits_of
from keras_bert.text.numpy_tensors import constant, string
from keras_bert.text.plain_words import PlainNormalizer, PlainWordPiece
from keras_bert.text.ragged_rows import ragged_rows
from keras_bert.text.texts import as_texts
from keras_bert.text.tokenizer import IDS, Tokenizer

_LOCK = threading.Lock()  # one for all tables, so that a tokenizer can be copied
_UNSEEN, _KEPT, _DROPPED, _SPACE = range(4)


class PlainTokenizer(Tokenizer):
    """`Tokenizer` in Python and numpy. It returns arrays in place of tensors, and `bytes` for strings.

    >>> from keras_bert.text.vocabulary import Vocabulary
    >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "em", "##bed", "##ding", "##s", "."])
    >>> tokenizer = PlainTokenizer(vocabulary)
    >>> tokenizer.tokenize([b"Embeddings.", b""])
    RaggedTensor([[[4, 5, 6, 7], [8]], []])
    >>> tokenizer.tokenize_with_offsets([b"Embeddings."])[1:]
    (RaggedTensor([[[0, 2, 5, 9], [10]]]), RaggedTensor([[[2, 5, 9, 10], [11]]]))
    """

    def tokenize(self, texts: Any) -> Any:
        """The ids of a batch of texts, ragged int32 [B, (words), (pieces)]; for one text, [(words), (pieces)]."""
        texts, decoded = self._decoded(texts)
        with _LOCK:
            places = self._places(decoded, self._ids)[1]
            return _like(texts, places, self._ids.ids.array[places.flat_values])

    def tokenize_with_offsets(self, texts: Any) -> tuple[Any, Any, Any]:
        """The ids, and in the same shape the characters [start, end) of the given text that each piece came from."""
        texts, decoded = self._decoded(texts)
        with _LOCK:
            table = self._ids_and_spans
            of_chunks, places = self._places(decoded, table)
            ids, starts, ends = (one.array[places.flat_values] for one in (table.ids, table.starts, table.ends))
            chunk_begins, origin, given, text_begins = self._characters(decoded)
        of_pieces = np.repeat(np.arange(len(of_chunks)), of_chunks.merge_dims(1, 2).row_lengths())
        chunk_begin = chunk_begins[of_pieces]  # of the chunk of each piece
        text_begin = np.repeat(text_begins, places.merge_dims(1, 2).row_lengths())
        starts = given[origin[chunk_begin + starts]] - text_begin
        ends = given[origin[chunk_begin + ends - 1] + 1] - text_begin
        return tuple(_like(texts, places, values.astype("int32")) for values in (ids, starts, ends))

    def detokenize(self, ids: Any) -> Any:
        """Texts from ids, [B, S] or as `tokenize` returns them. Pieces are joined to words, and padding is left out."""
        rows, rank = ragged_rows(ids, "`ids`", IDS)
        unknown = rows.values[(rows.values < 0) | (rows.values >= len(self.vocabulary))]
        if unknown.size:
            raise ValueError(f"{self._range_rule} {unknown[0]}")
        tokens, pad = self.vocabulary.tokens, self.vocabulary["[PAD]"]
        texts = [" ".join(tokens[id] for id in row if id != pad).replace(" ##", "") for row in rows.to_list()]
        found = constant([text.encode("utf-8", "replace") for text in texts], string)
        return found[0] if rank == 1 else found

    def is_word(self, text: str) -> bool:
        """Whether the text is a single word that the rules of the tokenizer leave as it is, and not too long."""
        if len(text) > self.max_word_length:
            return False
        chunks = self._plain_normalizer.chunks(self._plain_normalizer.decode(text.encode()))
        return [word for words in self._plain_normalizer.words(chunks) for word in words] == [text]

    def _decoded(self, texts: Any) -> tuple[np.ndarray, list[str]]:
        texts = as_texts(texts)
        return texts, [self._plain_normalizer.decode(text) for text in np.atleast_1d(texts)]

    def _places(self, decoded: list[str], table: ChunkTable) -> tuple[RaggedTensor, RaggedTensor]:
        """The places in the table of the pieces of the chunks [C, (words), (pieces)], and the same of the texts."""
        chunks: list[str] = []
        ends = [0]  # of the chunks of each text
        for text in decoded:
            chunks += self._plain_normalizer.chunks(text)
            ends.append(len(chunks))
        numbers = table.numbers(chunks)
        of_chunks = table.rows.gather(numbers)
        return of_chunks, RaggedTensor(of_chunks.values, of_chunks.row_splits[ends])

    def _characters(self, decoded: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Where each chunk begins in the cleaned texts, one after another; the place of each of their characters in the
        decoded texts [M]; the place of these in the given texts [N + 1]; and where each text begins in the last."""
        points = np.frombuffer("".join(decoded).encode("utf-32-le"), "<u4")  # [N]
        begins = splits_of([len(text) for text in decoded])  # [B + 1]
        for point in set(points[self._kinds[points] == _UNSEEN].tolist()):
            one = self._plain_normalizer.cleaned[point]
            self._kinds[point] = _DROPPED if one is None else _SPACE if one.isspace() else _KEPT
        kinds = self._kinds[points]
        origin = np.flatnonzero(kinds != _DROPPED)  # [M]
        is_space = kinds[origin] == _SPACE
        may_begin = np.append(True, is_space)  # [M + 1], after a space
        may_begin[np.searchsorted(origin, begins)] = True  # and at the first character of a text
        lengths = np.ones(len(points), "int64")
        for token, stand_in in self._normalizer.stand_ins.items():
            lengths[points == ord(stand_in)] = len(token)
        given = splits_of(lengths)
        return np.flatnonzero(~is_space & may_begin[:-1]), origin, given, given[begins[:-1]]

    # Built when first used, because that takes a moment.

    @cached_property
    def _plain_normalizer(self) -> PlainNormalizer:
        return PlainNormalizer(self.lowercase, self.strip_accents, self.split_cjk, self._normalizer.stand_ins)

    @cached_property
    def _wordpiece(self) -> Any:
        return PlainWordPiece(self.vocabulary.tokens, self._normalizer.stand_ins, self.max_word_length)

    @cached_property
    def _ids(self) -> ChunkTable:
        return ChunkTable(self._plain_normalizer, self._wordpiece, spans=False)

    @cached_property
    def _ids_and_spans(self) -> ChunkTable:
        return ChunkTable(self._plain_normalizer, self._wordpiece, spans=True)

    @cached_property
    def _kinds(self) -> np.ndarray:
        return np.full(0x110000, _UNSEEN, "uint8")


def _like(texts: np.ndarray, places: RaggedTensor, values: np.ndarray) -> Any:
    """The values in the shape of the places: the only row if one text was given, otherwise all rows."""
    found = places.with_values(places.values.with_values(values))
    return found if texts.ndim else found[0]
