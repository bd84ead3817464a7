"""The JSON of TF Serving's Classify: `examples` with features in, `results` with labels and scores out."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.serving.predict_requests import (
    MAX_BODY,
    BadRequest,
    ModelRequest,
    check_rows,
    chosen,
    parse,
    plain,
    shown,
    text_of,
)
from keras_bert.serving.work_limit import TooMuchWork
from keras_bert.tasks.signature import is_classify
from keras_bert.text.numpy_examples import example_class

_LARGEST = float(np.finfo("float32").max)


def read_classify_request(body: bytes, signatures: Mapping[str, Any]) -> ModelRequest:
    """The request in a body. Features are strings, numbers or lists by name; those in `context` are for every row."""
    data = parse(body, {"examples", "context", "signature_name"})
    classifying = {name: function for name, function in signatures.items() if is_classify(function)}
    if not classifying:
        raise BadRequest(
            "Only classifiers answer :classify, and this model is not one. Use :predict. Received: a model with "
            f"the signatures {sorted(signatures)}"
        )
    name = chosen(data, classifying)
    rows, context = data.get("examples"), data.get("context", {})
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in [*rows, context]):
        raise BadRequest("`examples` must be a list of objects, and `context` an object. Correct the body.")
    check_rows(len(rows))
    if both := {feature for row in rows for feature in row} & set(context):
        raise BadRequest(f"A feature must be either in `context` or in `examples`. Received: {sorted(both)} in both")
    shared = _example(context)
    if (copied := shared.ByteSize() * len(rows)) > MAX_BODY:
        raise TooMuchWork(
            f"`context` is copied to every row, and the copies may have at most {MAX_BODY} bytes in all. Send fewer "
            f"rows at once, or a smaller `context`. Received: {copied} bytes"
        )
    examples = [_example(row, shared) for row in rows]
    serialized = np.array([example.SerializeToString() for example in examples], object)
    texts = [
        [text for one in example.features.feature.values() for text in one.bytes_list.value] for example in examples
    ]
    return ModelRequest(name, {"inputs": serialized}, by_rows=True, texts=texts)


def write_results(request: ModelRequest, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The body of an answer."""
    pairs = zip(plain(outputs["classes"]), plain(outputs["scores"]), strict=True)
    return {"results": [list(map(list, zip(classes, scores, strict=True))) for classes, scores in pairs]}


def _example(row: dict[str, Any], shared: Any = None) -> Any:
    """The features of a row, and those that all rows share."""
    example = example_class()()
    if shared is not None:
        example.CopyFrom(shared)
    for name, value in row.items():
        try:
            feature = example.features.feature[name]
        except ValueError:
            raise BadRequest(
                f"A feature's name has half of a surrogate pair, which is not a character. Correct it. "
                f"Received: {name!r}"
            ) from None
        values = value if isinstance(value, list) else [value]
        kinds = {type(one) for one in values}
        if kinds <= {str, dict}:
            feature.bytes_list.value.extend(text_of(name, one) for one in values)
        elif kinds == {int} and all(-(2**63) <= one < 2**63 for one in values):
            feature.int64_list.value.extend(values)
        elif kinds <= {int, float} and float in kinds and all(abs(one) <= _LARGEST for one in values):  # nor NaN
            feature.float_list.value.extend(values)
        else:
            raise BadRequest(
                f"`{name}` must hold only strings, or only numbers: integers of 64 bits, or numbers that fit into a "
                f"float32. Received: {shown(value)}"
            )
    return example
