"""The layer between strings and the model: tokenizer and packer together, saved with their vocabulary."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from keras_bert.installation import need_tensorflow
from keras_bert.text.packing import Packer, check_seq_length
from keras_bert.text.plain_tokenizer import PlainTokenizer
from keras_bert.text.ragged_rows import ragged_rows, without_words
from keras_bert.text.tensors import tf, uses_arrays, uses_tensorflow
from keras_bert.text.texts import as_texts
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.windows import windows
from keras_bert.text.wordpiece import MAX_CHARACTERS

FIXED = (  # the tokenizer and the packer are built with these
    "vocabulary",
    "lowercase",
    "strip_accents",
    "split_cjk",
    "truncation",
    "special_tokens_in_text",
    "max_length",
    "max_word_length",
)

SEGMENTS = {2: "[B, (pieces)]", 3: "[B, (words), (pieces)]"}  # by rank, the shapes that `pack` takes


@keras.saving.register_keras_serializable("keras_bert")
class Preprocessor(keras.layers.Layer):
    """Texts to `input_word_ids`, `input_mask` and `input_type_ids`, int32 [B, S].

    A `str` is one text, whose tensors have the shape [S]. A list, an array or a pandas column is a batch. A tuple is a
    pair of texts or of columns. A third text has the segment id 2, for which released models have no vector. The layer
    works in tf.data, and on TensorFlow inside functional models. On other backends it returns their arrays.

    lowercase, strip_accents, split_cjk, special_tokens_in_text, max_word_length: see `Tokenizer`.
    seq_length: S, or "longest" for the length of the longest text of the batch, rounded up to a multiple of 8.
    truncation: "longest_first", "only_first", "only_second" or "waterfall".
    max_length: the limit of "longest", such as the number of the model's positions.

    >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "em", "##bed", "##ding", "##s", "."])
    >>> preprocessor = Preprocessor(vocabulary, seq_length=8)
    >>> keras.ops.convert_to_numpy(preprocessor(["Embeddings.", ""])["input_word_ids"])
    array([[2, 4, 5, 6, 7, 8, 3, 0],
           [2, 3, 0, 0, 0, 0, 0, 0]], dtype=int32)
    >>> keras.ops.convert_to_numpy(preprocessor(("Embed.", "Embeddings."))["input_type_ids"])
    array([0, 0, 0, 0, 0, 1, 1, 1], dtype=int32)
    >>> preprocessor.tokens("Embeddings.")
    ['em', '##bed', '##ding', '##s', '.']
    >>> preprocessor.tokenize(["Embeddings."])
    <tf.RaggedTensor [[[4, 5, 6, 7], [8]]]>
    >>> ids, start, end = preprocessor.tokenize_with_offsets(["Embeddings."])
    >>> start, end
    (<tf.RaggedTensor [[[0, 2, 5, 9], [10]]]>, <tf.RaggedTensor [[[2, 5, 9, 10], [11]]]>)
    >>> preprocessor.detokenize(ids).numpy()
    array([b'embeddings .'], dtype=object)
    >>> preprocessor.pack([[[4, 5]], [[6, 7]]])["input_word_ids"].numpy()
    array([[2, 4, 5, 3, 6, 7, 3, 0]], dtype=int32)
    >>> preprocessor.windows(["Embed"], ["Embeddings."], stride=2, max_question_length=2)["input_word_ids"].numpy()
    array([[2, 4, 5, 3, 4, 5, 6, 3],
           [2, 4, 5, 3, 6, 7, 8, 3]], dtype=int32)
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        *,
        seq_length: int | str = 128,
        truncation: str = "longest_first",
        special_tokens_in_text: bool = False,
        max_length: int = 512,
        max_word_length: int = MAX_CHARACTERS,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                "`vocabulary` must be a keras_bert.Vocabulary. Read one with Vocabulary.from_file(path), or make one "
                f"with Vocabulary(tokens). Received: {type(vocabulary).__name__}"
            )
        self.vocabulary = vocabulary
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_cjk = split_cjk
        self.seq_length = seq_length
        self.truncation = truncation
        self.special_tokens_in_text = special_tokens_in_text
        self.max_length = check_seq_length(max_length, segments=1, name="max_length")
        self.max_word_length = max_word_length
        rules = lowercase, strip_accents, split_cjk, special_tokens_in_text, max_word_length
        self._tokenizer = Tokenizer(vocabulary, *rules)
        self.plain_tokenizer = PlainTokenizer(vocabulary, *rules)  # faster for a few texts outside of a graph
        start, end, pad = (vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]"))
        self.packer = Packer(start, end, pad, truncation, max_length)
        self.built = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and getattr(self, "built", False):
            raise AttributeError(
                f"`{name}` of a preprocessor cannot be changed, only its `seq_length`. Create a new Preprocessor. "
                f"Received: {name}={value!r}"
            )
        if name == "seq_length" and value != "longest":
            value = check_seq_length(value, segments=1)
        super().__setattr__(name, value)

    def __call__(self, texts: Any, **context: Any) -> dict[str, Any]:  # context: Keras passes training=False
        # Strings cannot pass through Layer.__call__ on JAX and torch, and a list would be taken for several inputs.
        first = texts[0] if isinstance(texts, list | tuple) and texts else texts
        if not isinstance(first, keras.KerasTensor):
            return _hand_over(self.call(texts))
        need_tensorflow("A Keras model that reads text", "tensorflow_text")
        if keras.backend.backend() != "tensorflow":
            raise ValueError(
                "A Keras model can read text only on the TensorFlow backend. Call the preprocessor before the model. "
                f"Received: backend {keras.backend.backend()!r}"
            )
        # A model that was loaded from a file passes a list where its graph had a tuple.
        return super().__call__(tuple(texts) if isinstance(texts, list) else texts, **context)

    def call(self, texts: Any) -> dict[str, Any]:
        columns = text_columns(texts)
        with tf.device("CPU:0"):  # there are no string ops elsewhere
            packed = self.packer.pack(self._segments(columns), self.seq_length)
            return {name: value[0] for name, value in packed.items()} if not len(columns[0].shape) else packed

    @property
    def _engine(self) -> Any:
        return self._tokenizer if uses_tensorflow() else self.plain_tokenizer

    # === Pieces ===

    def tokens(self, texts: Any) -> list:
        """The pieces of one text as strings; for a batch, a list for each text."""
        return self._engine.tokens(texts)

    def tokenize(self, texts: Any) -> Any:
        """The ids of a batch of texts, ragged int32 [B, (words), (pieces)]; for one text, [(words), (pieces)]."""
        return self._engine.tokenize(texts)

    def tokenize_with_offsets(self, texts: Any) -> tuple[Any, Any, Any]:
        """The ids, the starts and the ends: each piece came from the characters [start, end) of the given text."""
        return self._engine.tokenize_with_offsets(texts)

    def detokenize(self, ids: Any) -> Any:
        """Texts from ids, without the padding."""
        return self._engine.detokenize(ids)

    # === Rows ===

    def pack(self, segments: Sequence[Any], seq_length: int | str | None = None) -> dict[str, Any]:
        """Packed rows. Each segment is the ids of a batch, as `tokenize` returns them or ragged [B, (pieces)]."""
        if not segments:
            raise ValueError("`segments` must not be empty. Pass [ids] or [ids_a, ids_b]. Received: no segments")
        with tf.device("CPU:0"):
            rows = [ragged_rows(segment, "The ids of a segment", SEGMENTS, ragged_rank=1)[0] for segment in segments]
            _check_equal_lengths([tf.get_static_value(segment.nrows()) for segment in rows])
            return _hand_over(self.packer.pack(rows, self.seq_length if seq_length is None else seq_length))

    def is_cut(self, texts: Any, seq_length: int | str | None = None) -> Any:
        """Which texts are too long and lose pieces, bool [B, K] for K columns of texts.

        >>> preprocessor = Preprocessor(Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]"]), seq_length=4)
        >>> keras.ops.convert_to_numpy(preprocessor.is_cut(["a b", "a b c"]))
        array([[False], [ True]])
        """
        with tf.device("CPU:0"):
            segments = self._segments(text_columns(texts))
            cut = self.packer.cut(segments, self.seq_length if seq_length is None else seq_length)
            return _hand_over({"cut": cut})["cut"]

    def windows(
        self,
        questions: Any,
        contexts: Any,
        *,
        seq_length: int | None = None,
        stride: int = 128,
        max_question_length: int = 64,
    ) -> dict[str, Any]:
        """Rows of a question and a part of its context, as many as the context needs; see `text.windows.windows`."""
        if seq_length is None:
            seq_length = self.max_length if isinstance(self.seq_length, str) else self.seq_length
        with tf.device("CPU:0"):
            questions, contexts = text_columns((questions, contexts))
            (question,) = self._segments([questions])
            offsets = self.tokenize_with_offsets(tf.reshape(contexts, [-1]))
            context, start, end = (without_words(part) for part in offsets)
            rows = windows(
                replace(self.packer, truncation="longest_first"),
                question,
                context,
                start,
                end,
                seq_length=seq_length,
                stride=stride,
                max_question_length=max_question_length,
            )
            return _hand_over(rows)

    def _segments(self, columns: list[Any]) -> list[Any]:
        """The ids of each column, ragged [B, (pieces)]."""
        return [without_words(self.tokenize(tf.reshape(column, [-1]))) for column in columns]

    # === Config ===

    def get_config(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in (*FIXED, "seq_length")}
        return super().get_config() | settings | {"vocabulary": list(self.vocabulary.tokens)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Preprocessor":
        return cls(**(config | {"vocabulary": Vocabulary(config["vocabulary"])}))


def text_columns(texts: Any) -> list[Any]:
    """String tensors of the same shape: one, or as many as the tuple has."""
    columns = [as_texts(column) for column in texts] if isinstance(texts, tuple) else [as_texts(texts)]
    if not columns:
        raise ValueError("A tuple of texts must not be empty. For a batch without texts, pass []. Received: ()")
    if len({len(column.shape) for column in columns}) > 1:
        raise ValueError(
            "A pair must be two texts or two columns of texts. To pair one text with a column, repeat the text. "
            f"Received: shapes {[tuple(column.shape) for column in columns]}"
        )
    if len(columns[0].shape) == 1:
        _check_equal_lengths([column.shape[0] for column in columns])
    return columns


def _check_equal_lengths(lengths: list[Any]) -> None:
    if None not in lengths and len(set(lengths)) > 1:
        raise ValueError(
            "The two columns of pairs must have the same number of rows. Find the row that one of them lacks. "
            f"Received: {' and '.join(map(str, lengths))} rows"
        )


def _hand_over(packed: dict[str, Any]) -> dict[str, Any]:
    """Tensors as arrays of the backend, except in `arrays` and inside a graph, which can only be that of tf.data."""
    if uses_arrays() or (uses_tensorflow() and (keras.backend.backend() == "tensorflow" or tf.inside_function())):
        return packed
    return {name: keras.ops.convert_to_tensor(np.asarray(value)) for name, value in packed.items()}
