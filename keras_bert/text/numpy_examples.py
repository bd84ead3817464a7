"""Serialized tf.train.Examples as columns, without TensorFlow."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

_PROTO = """
name: "keras_bert/example.proto" package: "keras_bert" syntax: "proto3"
message_type { name: "BytesList" field { name: "value" number: 1 type: TYPE_BYTES label: LABEL_REPEATED } }
message_type { name: "FloatList" field { name: "value" number: 1 type: TYPE_FLOAT label: LABEL_REPEATED } }
message_type { name: "Int64List" field { name: "value" number: 1 type: TYPE_INT64 label: LABEL_REPEATED } }
message_type {
  name: "Feature"
  field { name: "bytes_list" number: 1 type_name: "BytesList" label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "float_list" number: 2 type_name: "FloatList" label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "int64_list" number: 3 type_name: "Int64List" label: LABEL_OPTIONAL oneof_index: 0 }
  oneof_decl { name: "kind" }
}
message_type {
  name: "Features"
  field { name: "feature" number: 1 type_name: "FeatureEntry" label: LABEL_REPEATED }
  nested_type {
    name: "FeatureEntry"
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type_name: "Feature" label: LABEL_OPTIONAL }
    options { map_entry: true }
  }
}
message_type { name: "Example" field { name: "features" number: 1 type_name: "Features" label: LABEL_OPTIONAL } }
"""


class InvalidArgumentError(ValueError):
    """Values that cannot be computed, which in TensorFlow the ops of a graph refuse."""


class FixedLenFeature(NamedTuple):
    shape: Any
    dtype: Any


@cache
def example_class() -> Any:
    """The message tf.train.Example."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(_PROTO, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("keras_bert.Example"))


def parse_example(serialized: np.ndarray, features: dict[str, FixedLenFeature]) -> dict[str, np.ndarray]:
    """A column [B] for each of the features, of which every example must have a single value."""
    from google.protobuf.message import DecodeError

    try:
        examples = [example_class().FromString(one).features.feature for one in serialized]
    except DecodeError as error:
        raise InvalidArgumentError(f"An input is not a serialized tf.train.Example. Received: {error}") from None
    return {
        name: np.array([_value(one, name, feature.dtype) for one in examples], feature.dtype)
        for name, feature in features.items()
    }


def _value(found: Any, name: str, dtype: Any) -> Any:
    kind = "bytes_list" if dtype == np.object_ else "float_list"
    values = list(getattr(found[name], kind).value) if name in found else []
    if len(values) != 1:
        raise InvalidArgumentError(
            f"Each example needs the feature {name!r} with one value in its {kind}, but this could not be found. "
            f"Received: {len(values)} such values, and the features {sorted(found)}"
        )
    return values[0]
