"""Google's WordpieceTokenizer as TensorFlow ops: from words to ids and the byte where each piece begins."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.lazy import tf

MAX_CHARACTERS = 200  # of a word; Google's tokenizer makes a longer one [UNK]
_MAX_BYTES = 256  # of a piece, in tf_text


class WordPiece:
    """Splits each word into the longest pieces from left to right. Built once from the pieces of a vocabulary.

    stand_ins: other spellings of pieces in the words, such as the control character that replaces [MASK].
    most: the most characters of a word; a longer one is [UNK].

    >>> wordpiece = WordPiece(["[UNK]", "em", "##bed", "##ding"])
    >>> ids, splits, starts = wordpiece(["embedding", "other"])
    >>> ids.numpy().tolist(), splits.numpy().tolist(), starts.numpy().tolist()
    ([1, 2, 3, 0], [0, 3, 4], [0, 2, 5, 0])
    """

    def __init__(
        self, tokens: Sequence[str], stand_ins: Mapping[str, str] | None = None, most: int = MAX_CHARACTERS
    ) -> None:
        from tensorflow_text import FastWordpieceTokenizer

        stand_ins = stand_ins or {}
        # No normalized word has a NUL, at which the C++ builder stops reading a piece, or another control character of
        # the text. Such pieces are never found, so they get names that are never found either.
        taken = {"\0", *stand_ins.values()}
        pieces = [f"\x7f{number}" if taken & {*token} else token for number, token in enumerate(tokens)]
        long = next((piece for piece in pieces if len(piece.removeprefix("##").encode()) > _MAX_BYTES), None)
        if long is not None:
            raise ValueError(
                f"The vocabulary has a piece of more than {_MAX_BYTES} bytes in UTF-8. Rename it to [unusedN], which "
                f"keeps the other ids. Received: {long[:20]!r}... of {len(long.encode())} bytes"
            )
        self._most = most
        self._unknown = stand_ins.get("[UNK]", "[UNK]")
        # A constant outside of any graph that is being traced. On a GPU it would be copied back for each batch.
        with tf.init_scope(), tf.device("CPU:0"):
            self._model = FastWordpieceTokenizer(
                [stand_ins.get(piece, piece) for piece in pieces],
                unknown_token=self._unknown,
                max_bytes_per_word=4 * MAX_CHARACTERS,
                no_pretokenization=True,
                token_out_type=tf.int32,
            )

    def __call__(self, words: Any) -> tuple[Any, Any, Any]:
        """For a flat tensor of words: the ids, their row splits by word, and the byte where each piece begins."""
        words = tf.convert_to_tensor(words)
        longest = tf.reduce_max(tf.concat([[0], tf.strings.length(words)], 0))
        words = tf.cond(longest > self._most, lambda: self._without_long(words), lambda: words)
        ids, starts, _ = self._model.tokenize_with_offsets(words)
        return ids.values, ids.row_splits, tf.cast(starts.values, tf.int32)

    def _without_long(self, words: Any) -> Any:
        return tf.where(tf.strings.length(words, unit="UTF8_CHAR") > self._most, self._unknown, words)
