"""One example as a TFRecord, and batches of records as features.

A *static* record is google-research/bert's: a tf.train.Example of the padded, masked row. A *dynamic* record holds what
the other features follow from, as plain integers: the label, then the ids without padding. It takes a fiftieth of the
time to write and two thirds of the time to parse. The first [SEP] ends the first segment, and the mask is the row's
length.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.lazy import tf
from keras_bert.text.vocabulary import Vocabulary

# Model Garden's names for Google's features.
GARDEN = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
MASKED = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
LABELS = "next_sentence_labels"


def id_type(vocabulary_size: int) -> np.dtype:
    """The integers of dynamic records."""
    return np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<i4")


def static_records(batch: dict[str, Any]) -> list[bytes]:
    """A record for each row of a masked batch in Google's names: [B, S], the masks [B, P], and the labels [B]."""
    from tensorflow.train import Example, Feature, Features, FloatList, Int64List

    def feature(values: np.ndarray) -> Any:
        numbers = np.atleast_1d(values).tolist()
        if values.dtype == np.float32:
            return Feature(float_list=FloatList(value=numbers))
        return Feature(int64_list=Int64List(value=numbers))

    arrays = {name: values.numpy() for name, values in batch.items()}
    return [
        Example(
            features=Features(feature={name: feature(values[row]) for name, values in arrays.items()})
        ).SerializeToString(deterministic=True)
        for row in range(len(arrays["input_ids"]))
    ]


def parse_dynamic(records: Any, seq_length: int, vocabulary: Vocabulary, nsp: bool) -> dict[str, Any]:
    """A batch of dynamic records as Google's features before masking: int32 [B, S], and the labels [B]."""
    kind = id_type(len(vocabulary))
    numbers = tf.io.decode_raw(records, kind.newbyteorder("=").name, fixed_length=(1 + seq_length) * kind.itemsize)
    numbers = tf.cast(numbers, tf.int32)  # [B, 1 + S]
    lengths = tf.strings.length(records) // kind.itemsize - 1  # [B]
    mask = tf.sequence_mask(lengths, seq_length)  # [B, S]
    ids = tf.where(mask, numbers[:, 1:], vocabulary["[PAD]"])
    batch = {"input_ids": ids, "input_mask": tf.cast(mask, tf.int32), "segment_ids": tf.zeros_like(ids)}
    if nsp:
        # A [SEP] belongs to the segment it ends, so count those in front of each piece.
        ends = tf.cumsum(tf.cast(ids == vocabulary["[SEP]"], tf.int32), axis=1, exclusive=True)
        batch |= {"segment_ids": ends * batch["input_mask"], LABELS: numbers[:, 0]}
    return batch


def parse_static(records: Any, seq_length: int, predictions: int, nsp: bool, garden: bool) -> dict[str, Any]:
    """A batch of static records, masks included, in Google's names.

    garden: whether the records have Model Garden's names.
    """
    ints = {name: [seq_length] for name in ("input_ids", "input_mask", "segment_ids")}
    ints |= {name: [predictions] for name in MASKED[:2]} | ({LABELS: []} if nsp else {})
    theirs = {ours: name for name, ours in GARDEN.items()} if garden else {}
    features = {theirs.get(name, name): tf.io.FixedLenFeature(shape, tf.int64) for name, shape in ints.items()}
    features[MASKED[2]] = tf.io.FixedLenFeature([predictions], tf.float32)
    parsed = tf.io.parse_example(records, features)
    return {name: tf.cast(parsed[theirs.get(name, name)], tf.int32) for name in ints} | {MASKED[2]: parsed[MASKED[2]]}


def describe_alike(paths: Sequence[str]) -> dict[str, Any]:
    """The properties of the static records of several files; an error if those of a file differ from the first."""
    found = describe(paths[0])
    for path in paths[1:]:
        other = describe(path)
        if other != found:
            names = [name for name in found if other[name] != found[name]]
            different = ", ".join(f"{name}={other[name]} instead of {found[name]}" for name in names)
            raise ValueError(
                f"The records of {path} differ from those of {paths[0]}. Pass only files that were written with the "
                f"same options. Received: {different}"
            )
    return found


def describe(path: str) -> dict[str, Any]:
    """The properties of a file's static records, by the first one: length, predictions, names and labels."""
    from google.protobuf.message import DecodeError
    from tensorflow.train import Example

    try:
        found = Example.FromString(next(iter(tf.data.TFRecordDataset(path))).numpy()).features.feature
    except DecodeError:
        found = {}
    garden = "input_word_ids" in found
    names = [*(GARDEN if garden else GARDEN.values()), "input_mask", *MASKED]
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(
            f"{path} has no pretraining records of google-research/bert or Model Garden: its first record lacks "
            f"{', '.join(missing)}. Write examples with keras_bert.pretraining.write_examples, and pass the "
            f"directory that it writes, not its files. Received: {path}"
        )
    return {
        "seq_length": len(found["input_mask"].int64_list.value),
        "predictions": len(found["masked_lm_positions"].int64_list.value),
        "nsp": LABELS in found,
        "garden": garden,
    }
