"""The layer between strings and the model: tokenizer and packer together, with the vocabulary in its config."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras

from keras_bert.text.packing import Packer, check_seq_length
from keras_bert.text.texts import as_texts
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.windows import windows

FIXED = (  # the tokenizer and the packer are made of these
    "vocabulary",
    "lowercase",
    "strip_accents",
    "split_cjk",
    "truncation",
    "special_tokens_in_text",
    "max_length",
)


@keras.saving.register_keras_serializable("keras_bert")
class Preprocessor(keras.layers.Layer):
    """Texts to `input_word_ids`, `input_mask` and `input_type_ids`, int32 [B, S].

    A `str` is one text (and gives [S]), a list, array or pandas column a batch, and a tuple is a pair of texts or of
    columns. A third text has the segment id 2, for which released models have no vector. Works on elements of tf.data,
    and on TensorFlow inside a functional model; on the other backends it gives the backend's arrays.

    lowercase, strip_accents, split_cjk, special_tokens_in_text: see `Tokenizer`.
    seq_length: S, or "longest" for the longest text of the batch rounded up to a multiple of 8.
    truncation: "longest_first", "only_first", "only_second" or "waterfall".
    max_length: what "longest" is bounded by, the model's positions.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                "vocabulary must be a keras_bert Vocabulary. Read one with Vocabulary.from_file(path), or make one "
                f"with Vocabulary(tokens). Received: {type(vocabulary).__name__}"
            )
        if seq_length != "longest":
            check_seq_length(seq_length, segments=1)
        self.vocabulary = vocabulary
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_cjk = split_cjk
        self.seq_length = seq_length
        self.truncation = truncation
        self.special_tokens_in_text = special_tokens_in_text
        self.max_length = max_length
        self._tokenizer = Tokenizer(vocabulary, lowercase, strip_accents, split_cjk, special_tokens_in_text)
        start, end, pad = (vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]"))
        self.packer = Packer(start, end, pad, truncation, max_length)
        self.built = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and getattr(self, "built", False):
            raise AttributeError(
                f"Of a preprocessor seq_length alone can be set later. Make a new one. Received: {name}={value!r}"
            )
        super().__setattr__(name, value)

    def __call__(self, texts: Any, **context: Any) -> dict[str, Any]:  # context: Keras says training=False here
        # Strings cannot pass through Layer.__call__ on JAX and torch, and a list would be taken for several inputs.
        first = texts[0] if isinstance(texts, list | tuple) and texts else texts
        if not isinstance(first, keras.KerasTensor):
            return _hand_over(self.call(texts))
        if keras.backend.backend() != "tensorflow":
            raise ValueError(
                "Text inside a Keras model needs the TensorFlow backend. Call the preprocessor on the texts before "
                f"the model, or in tf.data. Received: backend {keras.backend.backend()!r}"
            )
        # A model that is read from a file gives a list where its graph had a tuple.
        return super().__call__(tuple(texts) if isinstance(texts, list) else texts, **context)

    def call(self, texts: Any) -> dict[str, Any]:
        import tensorflow as tf

        columns = text_columns(texts)
        with tf.device("CPU:0"):  # where the strings are
            segments = [self._tokenizer.tokenize(tf.reshape(column, [-1])).merge_dims(1, 2) for column in columns]
            packed = self.packer.pack(segments, self.seq_length)
            return {name: value[0] for name, value in packed.items()} if columns[0].shape.rank == 0 else packed

    # === Pieces ===

    def tokens(self, texts: Any) -> list:
        """The readable pieces of one text; of a batch, a list for each text."""
        return self._tokenizer.tokens(texts)

    def tokenize(self, texts: Any) -> Any:
        """Ids of a batch as a ragged int32 tensor [B, (words), (pieces)]; of one text, [(words), (pieces)]."""
        return self._tokenizer.tokenize(texts)

    def tokenize_with_offsets(self, texts: Any) -> tuple[Any, Any, Any]:
        """Ids, starts and ends, the characters of the text as given that each piece came from."""
        return self._tokenizer.tokenize_with_offsets(texts)

    def detokenize(self, ids: Any) -> Any:
        """Texts from ids, without padding."""
        return self._tokenizer.detokenize(ids)

    # === Rows ===

    def pack(self, segments: Sequence[Any], seq_length: int | str | None = None) -> dict[str, Any]:
        """Rows from ids: one entry for each segment, as `tokenize` gives a batch or as ragged rows [B, (pieces)]."""
        import tensorflow as tf

        if not segments:
            raise ValueError("A row needs a segment at least. Pass [ids] or [ids_a, ids_b]. Received: no segments")
        with tf.device("CPU:0"):
            rows = [_rows(segment) for segment in segments]
            _check_equal_lengths([tf.get_static_value(segment.nrows()) for segment in rows])
            return _hand_over(self.packer.pack(rows, self.seq_length if seq_length is None else seq_length))

    def is_cut(self, texts: Any, seq_length: int | str | None = None) -> Any:
        """Which texts are too long and lose pieces: bool [B, K], a column for each of the K texts of a row.

        >>> preprocessor = Preprocessor(Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]"]), seq_length=4)
        >>> keras.ops.convert_to_numpy(preprocessor.is_cut(["a b", "a b c"]))
        array([[False], [ True]])
        """
        import tensorflow as tf

        with tf.device("CPU:0"):
            segments = [self.tokenize(tf.reshape(column, [-1])).merge_dims(1, 2) for column in text_columns(texts)]
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
        """Rows of a question and a part of its context, enough for the whole context; see `text.windows.windows`."""
        import tensorflow as tf

        if seq_length is None:
            seq_length = self.max_length if isinstance(self.seq_length, str) else self.seq_length
        with tf.device("CPU:0"):
            questions, contexts = (tf.reshape(column, [-1]) for column in text_columns((questions, contexts)))
            question = self.tokenize(questions).merge_dims(1, 2)
            context, start, end = (part.merge_dims(1, 2) for part in self.tokenize_with_offsets(contexts))
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

    # === Config ===

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "vocabulary": list(self.vocabulary.tokens),
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "split_cjk": self.split_cjk,
            "seq_length": self.seq_length,
            "truncation": self.truncation,
            "special_tokens_in_text": self.special_tokens_in_text,
            "max_length": self.max_length,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Preprocessor":
        return cls(**(config | {"vocabulary": Vocabulary(config["vocabulary"])}))


def text_columns(texts: Any) -> list[Any]:
    """String tensors of one shape: one, or as many as a tuple has."""
    columns = [as_texts(column) for column in texts] if isinstance(texts, tuple) else [as_texts(texts)]
    if not columns:
        raise ValueError("A tuple is a pair of texts or of columns of texts. Pass a list for a batch. Received: ()")
    if len({column.shape.rank for column in columns}) > 1:
        raise ValueError(
            "A pair must be two texts or two columns of texts. Repeat the one text for each row of the other column. "
            f"Received: shapes {[tuple(column.shape) for column in columns]}"
        )
    if columns[0].shape.rank == 1:
        _check_equal_lengths([column.shape[0] for column in columns])
    return columns


def _check_equal_lengths(lengths: list[Any]) -> None:
    if None not in lengths and len(set(lengths)) > 1:
        raise ValueError(
            "The texts of a pair stand in columns of equal length. Drop or repeat rows of one. "
            f"Received: {' and '.join(map(str, lengths))} texts"
        )


def _rows(ids: Any) -> Any:
    """Ids as ragged [B, (pieces)]."""
    import tensorflow as tf

    rule = "A segment must be whole numbers, [B, (pieces)] or as tokenize gives a batch. Received: "
    if isinstance(ids, list | tuple):
        try:
            ids = tf.ragged.constant(ids, tf.int32, ragged_rank=1)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{rule}{error}") from None
    elif not tf.is_tensor(ids):
        ids = tf.convert_to_tensor(ids)
    if ids.shape.rank not in (2, 3) or not ids.dtype.is_integer:
        raise ValueError(f"{rule}shape={ids.shape}, dtype={ids.dtype.name}")
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.RaggedTensor.from_tensor(ids, ragged_rank=ids.shape.rank - 1)
    return ids.merge_dims(1, 2) if ids.shape.rank == 3 else ids


def _hand_over(tensors: dict[str, Any]) -> dict[str, Any]:
    """TensorFlow's tensors as the backend's arrays; inside a graph, which is tf.data's, they stay what they are."""
    import tensorflow as tf

    if keras.backend.backend() == "tensorflow" or tf.inside_function():
        return tensors
    return {name: keras.ops.convert_to_tensor(value.numpy()) for name, value in tensors.items()}
