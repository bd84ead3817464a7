"""Texts to pieces and back, exactly as in google-research/bert's tokenization.py, in TensorFlow ops."""

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from keras_bert.checks import check_flag
from keras_bert.lazy import tf
from keras_bert.text.normalizer import Normalizer
from keras_bert.text.offsets import Aligner
from keras_bert.text.ragged_rows import ragged_rows
from keras_bert.text.row_ids import row_ids
from keras_bert.text.rules import TextRules
from keras_bert.text.texts import as_texts
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece import MAX_CHARACTERS, WordPiece

IDS = {1: "[S]", 2: "[B, S]", 3: "[B, (words), (pieces)]"}  # by rank, the shapes that `detokenize` takes


class Tokenizer:
    """Google's BasicTokenizer and WordpieceTokenizer, in eager mode, tf.data, Keras models and SavedModels.

    strip_accents: whether NFD removes accents and splits Hangul into Jamo, as for Google's uncased models. None: the
        same as `lowercase`.
    split_cjk: whether each ideograph is a word of its own.
    special_tokens_in_text: whether "[MASK]" and the like in a text are special tokens. By default they are plain text,
        so that no text can inject one.
    max_word_length: in characters; a longer word is [UNK]. At most 200, as in Google's code.

    >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "em", "##bed", "##ding", "##s", "."])
    >>> tokenizer = Tokenizer(vocabulary)
    >>> tokenizer.tokens("Embeddings.")
    ['em', '##bed', '##ding', '##s', '.']
    >>> tokenizer.tokenize(["Embeddings.", ""])
    <tf.RaggedTensor [[[4, 5, 6, 7], [8]], []]>
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        special_tokens_in_text: bool = False,
        max_word_length: int = MAX_CHARACTERS,
    ) -> None:
        check_flag("special_tokens_in_text", special_tokens_in_text)
        if not 1 <= max_word_length <= MAX_CHARACTERS:
            raise ValueError(
                f"`max_word_length` must be from 1 to {MAX_CHARACTERS} characters. Use a number in between. "
                f"Received: max_word_length={max_word_length}"
            )
        self.vocabulary = vocabulary
        self.lowercase = lowercase
        self.strip_accents = TextRules(lowercase, strip_accents, split_cjk).strips_accents
        self.split_cjk = split_cjk
        self.max_word_length = max_word_length
        special_tokens = tuple(vocabulary.special_tokens) if special_tokens_in_text else ()
        self._normalizer = Normalizer(lowercase, self.strip_accents, split_cjk, special_tokens)

    def tokenize(self, texts: Any) -> Any:
        """The ids of a batch of texts, ragged int32 [B, (words), (pieces)]; for one text, [(words), (pieces)]."""
        texts = as_texts(texts)
        with tf.device("CPU:0"):  # there are no string ops elsewhere
            words = self._words(self._normalizer.decode(_batch(texts)))
            ids, splits, _ = self._wordpiece(words.values)
            return _like(texts, _nest(ids, splits, words))

    def tokenize_with_offsets(self, texts: Any) -> tuple[Any, Any, Any]:
        """The ids, and in the same shape the characters [start, end) of the given text that each piece came from.

        Invalid UTF-8 is not counted. Pieces that came from the same character have the same span.

        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "caf", "##e", "!"])
        >>> Tokenizer(vocabulary).tokenize_with_offsets("  Café!")[1:]
        (<tf.RaggedTensor [[2, 5], [6]]>, <tf.RaggedTensor [[5, 6], [7]]>)
        """
        texts = as_texts(texts)
        with tf.device("CPU:0"):
            decoded = self._normalizer.decode(_batch(texts))
            words = self._words(decoded)
            ids, splits, starts = self._wordpiece(words.values)
            lengths = tf.strings.length(words.values)
            of_word = row_ids(splits[1:] - splits[:-1])  # the word of each piece
            starts += tf.gather(tf.cumsum(lengths, exclusive=True), of_word)
            # Pieces cover the bytes of the words without gaps, so each ends where the next begins.
            ends = tf.concat([starts, [tf.reduce_sum(lengths)]], 0)[1:]
            rows = tf.gather(row_ids(words.row_lengths()), of_word)
            starts, ends = self._aligner(decoded, words.values, starts, ends, rows)
            return (
                _like(texts, _nest(ids, splits, words)),
                _like(texts, _nest(starts, splits, words)),
                _like(texts, _nest(ends, splits, words)),
            )

    def tokens(self, text: Any) -> list:
        """The pieces of one text as strings; for several texts, a list for each."""
        ids = self.tokenize(text)
        pieces = [self.vocabulary.token(id) for id in np.asarray(ids.flat_values)]
        if len(ids.shape) == 2:
            return pieces
        splits = np.asarray(ids.merge_dims(1, 2).row_splits)
        return [pieces[begin:end] for begin, end in pairwise(splits)]

    def detokenize(self, ids: Any) -> Any:
        """Texts from ids, [B, S] or as `tokenize` returns them. Pieces are joined to words, and padding is left out.

        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "em", "##bed", "."])
        >>> Tokenizer(vocabulary).detokenize([[2, 4, 5, 6, 3, 0, 0]]).numpy().tolist()
        [b'[CLS] embed . [SEP]']
        """
        with tf.device("CPU:0"):
            rows, rank = ragged_rows(ids, "`ids`", IDS)
            unknown = tf.boolean_mask(rows.values, (rows.values < 0) | (rows.values >= len(self.vocabulary)))[:1]
            rule, found = self._range_rule, tf.get_static_value(unknown)  # None while a graph is traced
            if found is None:
                with tf.control_dependencies([tf.debugging.Assert(tf.equal(tf.size(unknown), 0), [rule, unknown])]):
                    rows = tf.identity(rows)
            elif found.size:
                raise ValueError(f"{rule} {found[0]}")
            real = rows.values != self.vocabulary["[PAD]"]
            pieces = tf.gather(self._pieces, tf.boolean_mask(rows.values, real))
            of_row = tf.boolean_mask(row_ids(rows.row_lengths()), real)
            texts = tf.strings.unsorted_segment_join(pieces, of_row, rows.nrows(), separator=" ")
            texts = tf.strings.regex_replace(texts, " ##", "")
            return texts[0] if rank == 1 else texts

    @property
    def _range_rule(self) -> str:
        return f"`ids` must be from 0 to {len(self.vocabulary) - 1}, the last id of the vocabulary. Received:"

    def _words(self, decoded: Any) -> Any:
        return tf.strings.split(self._normalizer.normalize(decoded))  # [B, (words)]

    # Built when first used, because that takes a moment, and outside of any graph that is being traced.

    @cached_property
    def _wordpiece(self) -> WordPiece:
        return WordPiece(self.vocabulary.tokens, self._normalizer.stand_ins, self.max_word_length)

    @cached_property
    def _aligner(self) -> Aligner:
        return Aligner(self._normalizer)

    @cached_property
    def _pieces(self) -> Any:
        with tf.init_scope(), tf.device("CPU:0"):
            return tf.constant([token.encode("utf-8", "replace") for token in self.vocabulary.tokens])


def _batch(texts: Any) -> Any:
    return texts[None] if texts.shape.rank == 0 else texts


def _like(texts: Any, ragged: Any) -> Any:
    """The only row if one text was given, otherwise all rows."""
    return ragged[0] if texts.shape.rank == 0 else ragged


def _nest(values: Any, splits: Any, words: Any) -> Any:
    return tf.RaggedTensor.from_nested_row_splits(values, [words.row_splits, splits], validate=False)
