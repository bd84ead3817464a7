"""Rows as TFRecords, and back.

A *static* record is google-research/bert's: a tf.train.Example in its names, of the row with its masks, padded. A
*dynamic* record is what the rest follows from: the label and then the row's ids without padding, as plain integers,
which take a fiftieth of the time to make and two thirds to parse; a [SEP] ends the first text, and the mask is the
row's length.
"""

from typing import Any

import numpy as np

# Model Garden's names for Google's.
GARDEN = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
MASKED = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


def id_type(vocabulary_size: int) -> np.dtype:
    """The integers of dynamic records."""
    return np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<i4")


def static_record(row: dict[str, np.ndarray], label: int | None) -> bytes:
    """A masked row: input_ids, input_mask, segment_ids [S], and the three of the masks [P]."""
    from tensorflow.train import Feature, FloatList

    features = {name: _ints(values.tolist()) for name, values in row.items() if name != "masked_lm_weights"}
    features["masked_lm_weights"] = Feature(float_list=FloatList(value=row["masked_lm_weights"].tolist()))
    if label is not None:
        features["next_sentence_labels"] = _ints([label])
    return _example(features)


def parse_dynamic(
    records: Any, seq_length: int, vocabulary_size: int, separator: int, pad: int, nsp: bool
) -> dict[str, Any]:
    """A batch of dynamic records as Google's features, unmasked: int32 [B, S], and the labels [B]."""
    import tensorflow as tf

    kind = id_type(vocabulary_size)
    numbers = tf.io.decode_raw(records, kind.newbyteorder("=").name, fixed_length=(1 + seq_length) * kind.itemsize)
    numbers = tf.cast(numbers, tf.int32)  # [B, 1 + S]
    lengths = tf.strings.length(records) // kind.itemsize - 1  # [B]
    mask = tf.sequence_mask(lengths, seq_length)  # [B, S]
    ids = tf.where(mask, numbers[:, 1:], pad)
    batch = {"input_ids": ids, "input_mask": tf.cast(mask, tf.int32), "segment_ids": tf.zeros_like(ids)}
    if nsp:
        # A [SEP] belongs to the text it ends: count those before each piece.
        ends = tf.cumsum(tf.cast(ids == separator, tf.int32), axis=1, exclusive=True)
        batch |= {"segment_ids": ends * batch["input_mask"], "next_sentence_labels": numbers[:, 0]}
    return batch


def parse_static(records: Any, seq_length: int, predictions: int, nsp: bool, garden: bool) -> dict[str, Any]:
    """A batch of static records, in Google's or Model Garden's spelling, in Google's names; masks included."""
    import tensorflow as tf

    theirs = {ours: name for name, ours in GARDEN.items()} if garden else {}
    names = {name: theirs.get(name, name) for name in ("input_ids", "input_mask", "segment_ids")}
    features = {name: tf.io.FixedLenFeature([seq_length], tf.int64) for name in names.values()}
    features |= {name: tf.io.FixedLenFeature([predictions], tf.int64) for name in MASKED[:2]}
    features[MASKED[2]] = tf.io.FixedLenFeature([predictions], tf.float32)
    if nsp:
        features["next_sentence_labels"] = tf.io.FixedLenFeature([], tf.int64)
    parsed = tf.io.parse_example(records, features)
    parsed = {name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value for name, value in parsed.items()}
    return {name: parsed.pop(their) for name, their in names.items()} | parsed


def describe(record: bytes, path: str) -> dict[str, Any]:
    """What a static record of somebody else's is like: its length, predictions, spelling, and whether it has labels."""
    from google.protobuf.message import DecodeError
    from tensorflow.train import Example

    try:
        found = Example.FromString(record).features.feature
    except DecodeError:
        found = {}
    garden = "input_word_ids" in found
    names = [*(GARDEN if garden else GARDEN.values()), "input_mask", *MASKED]
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(
            "A pretraining record has google-research/bert's features or Model Garden's. Write examples with "
            f"keras_bert.pretraining.write_examples. Received: {path}, whose first record has no {', '.join(missing)}"
        )
    return {
        "seq_length": len(found["input_mask"].int64_list.value),
        "predictions": len(found["masked_lm_positions"].int64_list.value),
        "nsp": "next_sentence_labels" in found,
        "garden": garden,
    }


def _ints(values: list[int]) -> Any:
    from tensorflow.train import Feature, Int64List

    return Feature(int64_list=Int64List(value=values))


def _example(features: dict[str, Any]) -> bytes:
    from tensorflow.train import Example, Features

    return Example(features=Features(feature=features)).SerializeToString(deterministic=True)
