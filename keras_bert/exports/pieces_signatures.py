"""Signatures that show how texts are split: pieces, their ids and offsets, and which of them the model reads."""

from typing import Any

import numpy as np

from keras_bert.exports.text_reader import TextReader
from keras_bert.tasks.signature import Signature, shared_graph, text_signatures
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.row_ids import row_ids
from keras_bert.text.tensors import tf, uses_tensorflow
from keras_bert.text.vocabulary import Vocabulary


def pieces_signatures(reader: TextReader) -> dict[str, Signature]:
    """`pieces` for a text, `pieces_pair` for two: columns [B, P] with their pieces, without [CLS] and [SEP].

    `text`: 0 or 1. `piece`, `id`. `start`, `end`: characters of the text, `start_byte`, `end_byte`: its bytes. `kept`:
    whether the model reads the piece, of rows of `seq_length`. The first `count` [B] are pieces, the rest is padding.
    Of a text, at most 2 * seq_length pieces are listed, so that a long one does not widen the rows of all others;
    `total` [B] counts all.
    """
    names = piece_names(reader.preprocessor.vocabulary)
    tokenizer, packer, most = reader.tokenizer, reader.packer, 2 * reader.seq_length

    @shared_graph
    def split(text: tf.Tensor) -> list[tf.RaggedTensor]:
        return [without_words(part) for part in tokenizer.tokenize_with_offsets(text)]

    def pieces(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
        found = [split(text) for text in texts]
        lengths = tf.stack([tf.cast(ids.row_lengths(), tf.int32) for ids, *_ in found], axis=1)  # [B, K]
        kept = reader.kept(lengths)  # [B, K]
        columns = []
        for number, (text, parts) in enumerate(zip(texts, found, strict=True)):
            ids, start, end = (part[:, :most] for part in parts)  # each [B, (pieces)]
            row = row_ids(ids.row_lengths())
            place = tf.ragged.range(tf.cast(ids.row_lengths(), tf.int32)).values
            byte = _byte_of_character(text, row)
            flat = {
                "text": tf.fill(tf.shape(row), number),
                "piece": tf.gather(tf.constant(names), ids.values),
                "id": ids.values,
                "start": start.values,
                "end": end.values,
                "start_byte": byte(start.values),
                "end_byte": byte(end.values),
                "kept": packer.keeps(place, *(tf.gather(sizes[:, number], row) for sizes in (kept, lengths))),
            }
            columns.append({name: ids.with_values(values) for name, values in flat.items()})
        joined = {name: tf.concat([column[name] for column in columns], axis=1) for name in columns[0]}
        return {
            **{name: ragged.to_tensor() for name, ragged in joined.items()},
            "count": tf.cast(joined["id"].row_lengths(), tf.int32),
            "total": tf.reduce_sum(lengths, axis=1),
        }

    found = text_signatures(pieces)
    return {"pieces": found["serving_default"], "pieces_pair": found["pair"]}


def piece_names(vocabulary: Vocabulary) -> np.ndarray:
    """The pieces as a graph can hold them, by id."""
    return np.array([token.encode("utf-8", "replace") for token in vocabulary.tokens], object)


def _byte_of_character(text: "tf.Tensor", row: "tf.Tensor") -> Any:
    """A function from characters of these rows to the bytes where they begin; bytes of invalid UTF-8 count as bytes."""
    if not uses_tensorflow():
        places = [_places(one) for one in text]
        firsts = tf.cumsum([len(one) for one in places], exclusive=True)[row]
        flat = np.concatenate([np.zeros(0, "int32"), *places])
        return lambda character: flat[firsts + character]
    _, begins = tf.strings.unicode_decode_with_offsets(text, "UTF-8", errors="ignore")  # [B, (characters)]
    ends = tf.cast(tf.strings.length(text), begins.dtype)[:, tf.newaxis]
    bytes = tf.concat([begins, tf.RaggedTensor.from_tensor(ends)], axis=1)  # [B, (characters + 1)]
    first = tf.gather(tf.cast(bytes.row_starts(), tf.int32), row)
    return lambda character: tf.cast(tf.gather(bytes.values, first + character), tf.int32)


def _places(text: bytes) -> np.ndarray:
    """The byte at which each valid character of a text begins, and the number of all bytes."""
    points = np.frombuffer(text.decode("utf-8", "surrogateescape").encode("utf-32-le", "surrogatepass"), "<u4")
    escaped = (points >= 0xD800) & (points < 0xE000)  # each is an invalid byte
    sizes = 1 + ((points >= 0x80).astype("int32") + (points >= 0x800) + (points >= 0x10000)) * ~escaped
    return np.append((np.cumsum(sizes) - sizes)[~escaped], len(text)).astype("int32")
