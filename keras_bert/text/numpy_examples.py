"""Serialized tf.train.Examples as columns, without TensorFlow."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np


class InvalidArgumentError(ValueError):
    """Values that cannot be computed, which in TensorFlow the ops of a graph refuse."""


class FixedLenFeature(NamedTuple):
    shape: Any
    dtype: Any


def parse_example(serialized: np.ndarray, features: dict[str, FixedLenFeature]) -> dict[str, np.ndarray]:
    """A column [B] for each of the features, of which every example must have a single value."""
    examples = [_parsed(one) for one in serialized]
    return {
        name: np.array([_value(one, name, feature.dtype) for one in examples], feature.dtype)
        for name, feature in features.items()
    }


def _parsed(serialized: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return example_class().FromString(serialized).features.feature
    except DecodeError:
        raise InvalidArgumentError(f"Could not parse example input, value: {serialized[:100]!r}") from None


def _value(found: Any, name: str, dtype: Any) -> Any:
    kind = "bytes_list" if dtype == np.object_ else "float_list"
    given = found[name].WhichOneof("kind") if name in found else None
    if given is None:
        raise InvalidArgumentError(f"Feature: {name} is required but could not be found.")
    values = getattr(found[name], given).value
    if given != kind or len(values) != 1:
        raise InvalidArgumentError(f"Feature: {name} must be a {kind} of one value. Received: {len(values)} in {given}")
    return values[0]


@cache
def example_class() -> Any:
    """The message tf.train.Example."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    Field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="keras_bert/example.proto", package="keras_bert", syntax="proto3")

    def message(parent: Any, name: str, *fields: tuple[str, int, str | None, bool], **options: Any) -> Any:
        made = parent.add(name=name, **options)
        for number, (field, kind, of, repeated) in enumerate(fields, 1):
            label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
            made.field.add(name=field, number=number, type=kind, type_name=of, label=label)
        return made

    for name, kind in (
        ("BytesList", Field.TYPE_BYTES),
        ("FloatList", Field.TYPE_FLOAT),
        ("Int64List", Field.TYPE_INT64),
    ):
        message(file.message_type, name, ("value", kind, None, True))
    inner = Field.TYPE_MESSAGE
    kinds = [(f"{kind}_list", inner, f".keras_bert.{kind.title()}List", False) for kind in ("bytes", "float", "int64")]
    feature = message(file.message_type, "Feature", *kinds)
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    features = message(file.message_type, "Features", ("feature", inner, ".keras_bert.Features.FeatureEntry", True))
    entry = ("key", Field.TYPE_STRING, None, False), ("value", inner, ".keras_bert.Feature", False)
    message(features.nested_type, "FeatureEntry", *entry).options.map_entry = True
    message(file.message_type, "Example", ("features", inner, ".keras_bert.Features", False))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("keras_bert.Example"))
