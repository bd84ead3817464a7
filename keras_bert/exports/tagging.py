"""A tagger's answers in the graph: entities out of the labels of units, by the rules of `tasks.entities.decode`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keras_bert.exports.encoder_export import serve
from keras_bert.exports.turns import in_turns
from keras_bert.tasks.decoding.entities import BEGIN, END, has_entities
from keras_bert.tasks.token_tagger import TokenTagger
from keras_bert.text.offsets import all_behind_marks
from keras_bert.text.row_ids import row_ids

if TYPE_CHECKING:
    import tensorflow as tf


def tag(task: TokenTagger, logits: Any, seq_length: int) -> dict[str, Any]:
    """The signature: `type`, `text`, `start`, `end`, `score`, each [B, E], of which the first `count` [B] are real.

    `truncated`, as other tasks have it, is false: a text that is longer than the model is read in parts.
    """
    import tensorflow as tf

    entities = has_entities(task.labels)
    parts = [label.partition("-") if entities else ("B", "-", label) for label in task.labels]
    kinds = tf.constant([kind for _, _, kind in parts])  # [C], "" for O
    begins = tf.constant([letter in BEGIN for letter, _, _ in parts])
    ends = tf.constant([letter in END for letter, _, _ in parts])
    preprocessor = task.bert.preprocessor
    packer = replace(preprocessor.packer, max_length=seq_length)

    def answer(text: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, start, end = preprocessor.tokenize_with_offsets(text)  # each [B, (words), (pieces)]
        pieces = ids.merge_dims(1, 2)
        rows = _parts(pieces, seq_length - 2)
        of_rows = in_turns(logits, packer.pack([rows], "longest"), (None, len(parts)))  # [R, S, C]
        scores = tf.nn.softmax(_of_pieces(of_rows, rows))  # [pieces, C]

        # Units: words, or pieces where the task says so.
        of_unit = row_ids(ids.values.row_lengths())  # the word of each piece
        if task.unit == "piece":
            of_unit = tf.range(tf.size(of_unit))
        first = tf.concat([tf.ones_like(of_unit[:1]), of_unit[1:] - of_unit[:-1]], 0) > 0  # [pieces]
        scores = tf.boolean_mask(scores, first)  # [units, C]
        label = tf.argmax(scores, axis=1)
        row = tf.boolean_mask(row_ids(pieces.row_lengths()), first)  # the text of each unit

        # Entities: runs of units.
        kind = tf.gather(kinds, label)
        joined = (kind[1:] == kind[:-1]) & (row[1:] == row[:-1])
        joined &= ~tf.gather(begins, label[1:]) & ~tf.gather(ends, label[:-1])
        opens = (kind != "") & tf.concat([tf.ones_like(row[:1], tf.bool), ~joined], 0)  # [units]
        entity = tf.where(kind == "", -1, tf.cumsum(tf.cast(opens, tf.int32)) - 1)  # of each unit; -1 is dropped
        count = tf.reduce_sum(tf.cast(opens, tf.int32))
        of_piece = tf.gather(entity, tf.cumsum(tf.cast(first, tf.int32)) - 1)  # the entity of each piece
        size = tf.math.unsorted_segment_sum(tf.ones_like(row, tf.float32), entity, count)
        begin = tf.boolean_mask(tf.boolean_mask(start.flat_values, first), opens)
        owner = tf.boolean_mask(row, opens)
        texts = tf.gather(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore"), owner)
        limit = all_behind_marks(texts, tf.math.unsorted_segment_max(end.flat_values, of_piece, count))
        found = {
            "type": tf.boolean_mask(kind, opens),
            "text": tf.strings.substr(texts, begin, limit - begin, unit="UTF8_CHAR"),
            "start": begin,
            "end": limit,
            "score": tf.math.unsorted_segment_sum(tf.reduce_max(scores, axis=1), entity, count) / size,
        }
        dense = {
            name: tf.RaggedTensor.from_value_rowids(values, owner, tf.shape(text)[0], validate=False).to_tensor()
            for name, values in found.items()
        }
        counts = tf.math.bincount(owner, minlength=tf.shape(text)[0], dtype=tf.int32)  # [B]
        return {**dense, "count": counts, "truncated": tf.zeros_like(text, tf.bool)}

    return {"serving_default": serve(answer, {"text": tf.TensorSpec([None], tf.string, "text")})}


def _parts(pieces: "tf.RaggedTensor", room: int) -> "tf.RaggedTensor":
    """The same pieces in rows of at most `room`: one row for a text, or more."""
    import tensorflow as tf

    lengths = tf.cast(pieces.row_lengths(), tf.int32)
    parts = tf.maximum((lengths + room - 1) // room, 1)
    text = row_ids(parts)
    part = tf.range(tf.size(text)) - tf.gather(tf.cumsum(parts, exclusive=True), text)
    sizes = tf.minimum(tf.gather(lengths, text) - part * room, room)
    return tf.RaggedTensor.from_row_lengths(pieces.values, sizes, validate=False)


def _of_pieces(logits: "tf.Tensor", rows: "tf.RaggedTensor") -> "tf.Tensor":
    """From [R, S, C] to the pieces [all pieces, C], without [CLS], [SEP] and padding."""
    import tensorflow as tf

    column = tf.range(tf.shape(logits)[1])[tf.newaxis]
    last = tf.cast(rows.row_lengths(), tf.int32)[:, tf.newaxis]
    return tf.boolean_mask(logits, (column > 0) & (column <= last))
