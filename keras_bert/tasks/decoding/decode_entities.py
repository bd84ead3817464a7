"""Entities from the logits of pieces, in ops that also run in a graph: one decoder for Python and for exports."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from keras_bert.tasks.decoding.characters import cut_out
from keras_bert.tasks.decoding.entities import BEGIN, END, has_entities
from keras_bert.text.tensors import tf, uses_tensorflow


class Scheme(NamedTuple):
    """What each label means, in the order of the logits [C]: BIO, BIOES, IO, or tags.

    kind: a number for each type of entity, 0 for O. begins, ends: whether it can only be the first or the last unit.
    """

    kind: Any
    begins: Any
    ends: Any


def scheme_of(labels: Sequence[str]) -> Scheme:
    """The scheme of these labels. Tags are all of one kind: which units are joined depends only on their group."""
    if not has_entities(labels):
        return Scheme([1] * len(labels), [False] * len(labels), [False] * len(labels))
    types = types_of(labels)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(["", *types]))}
    letters = [label[0] for label in labels]
    return Scheme([numbers[name] for name in types], [one in BEGIN for one in letters], [one in END for one in letters])


def types_of(labels: Sequence[str]) -> list[str]:
    """The type of entity that each label is for, "" for O; a tag is its own type.

    >>> types_of(("O", "B-PER", "I-PER")), types_of(("NOUN", "VERB"))
    (['', 'PER', 'PER'], ['NOUN', 'VERB'])
    """
    return [label.partition("-")[2] for label in labels] if has_entities(labels) else list(labels)


def find_runs(scheme: Scheme, label: "tf.Tensor", group: "tf.Tensor") -> tuple["tf.Tensor", "tf.Tensor"]:
    """Whether an entity begins at each unit, bool [U], and the number of the entity it is in, -1 if in none, [U].

    By the rules of CoNLL's script, where any I- may begin an entity.

    label: the number of each unit's label [U]. group: an entity never continues from one group to the next [U].
    """
    kind = tf.gather(scheme.kind, label)
    joined = (kind[1:] == kind[:-1]) & (group[1:] == group[:-1])
    joined &= ~tf.gather(scheme.begins, label[1:]) & ~tf.gather(scheme.ends, label[:-1])
    begins = (kind > 0) & tf.concat([tf.ones_like(kind[:1], tf.bool), ~joined], 0)
    return begins, tf.where(kind > 0, tf.cumsum(tf.cast(begins, tf.int32)) - 1, -1)


def decode_entities(
    scheme: Scheme,
    logits: "tf.Tensor",
    row: "tf.Tensor",
    start: "tf.Tensor",
    end: "tf.Tensor",
    is_unit: "tf.Tensor",
    group: "tf.Tensor",
    texts: "tf.Tensor",
) -> dict[str, "tf.Tensor"]:
    """The E entities of all texts in order, and `unit_label`, the likeliest label of each unit [U].

    `row`, `label`, `text`, `start`, `end`, `score` [E]: the text of each entity, the label of its first unit, its
    characters, and the mean probability of its units. `first`, `last` [E]: units, counted through all texts.

    logits: of the pieces [P, C]. row, start, end: the text and the characters of each piece [P]. is_unit: whether a
    piece begins a unit [P]. group: entities do not continue from one group of pieces to the next [P].
    """
    scores = tf.nn.softmax(tf.boolean_mask(logits, is_unit))  # [U, C]
    label = tf.argmax(scores, axis=1, output_type=tf.int32)  # [U]
    begins, entity = find_runs(scheme, label, tf.boolean_mask(group, is_unit))
    first = tf.cast(tf.where(begins)[:, 0], tf.int32)  # [E]
    count = tf.size(first)
    size = tf.math.unsorted_segment_sum(tf.ones_like(entity), entity, count)
    total = tf.math.unsorted_segment_sum(tf.reduce_max(scores, axis=1), entity, count)
    row, start = (tf.gather(tf.boolean_mask(x, is_unit), first) for x in (row, start))
    of_piece = tf.gather(entity, tf.cumsum(tf.cast(is_unit, tf.int32)) - 1)  # the entity of each piece
    text, end = cut_out(texts, row, start, tf.math.unsorted_segment_max(end, of_piece, count))
    return {
        "row": row,
        "label": tf.gather(label, first),
        "text": text,
        "start": start,
        "end": end,
        "score": total / tf.cast(size, tf.float32),
        "first": first,
        "last": first + size - 1,
        "unit_label": label,
    }


def entity_decoder() -> Any:
    """`decode_entities`; where text runs in TensorFlow, as one graph."""
    return _graph() if uses_tensorflow() else decode_entities


@cache
def _graph() -> Any:
    """It is traced once for all tasks."""

    def column(dtype: tf.DType) -> tf.TensorSpec:
        return tf.TensorSpec([None], dtype)

    scheme = Scheme(column(tf.int32), column(tf.bool), column(tf.bool))
    pieces = [column(dtype) for dtype in (tf.int32, tf.int32, tf.int32, tf.bool, tf.int32)]
    signature = [scheme, tf.TensorSpec([None, None], tf.float32), *pieces, column(tf.string)]
    return tf.function(decode_entities, input_signature=signature, autograph=False)
