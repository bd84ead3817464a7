"""Requests that TF Serving runs before a version gets traffic, so that no user waits for the first, slow run."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.installation import need
from keras_bert.lazy import tf
from keras_bert.tasks.signature import is_classify

PATH = Path("assets.extra") / "tf_serving_warmup_requests"
_SIZES = (1, 8)  # rows of a request
_TEXTS = ("A short text.", "Another text, which is somewhat longer than the first one was.", "짧은 글.")


def write_warm_up(folder: Path, name: str, signatures: dict[str, Any]) -> None:
    """Write PredictionLog records for every signature of a SavedModel that is served under this name."""
    logs = need("tensorflow_serving.apis.prediction_log_pb2", "Writing requests for TF Serving", "serving")
    with tf.io.TFRecordWriter(str(folder / PATH)) as file:
        for signature, function in signatures.items():
            specs = [*function.structured_input_signature[0], *function.structured_input_signature[1].values()]
            fixed = {spec.shape[0] for spec in specs if spec.shape.rank} - {None}
            for size in fixed or _SIZES:
                log = logs.PredictionLog()
                if is_classify(function):
                    request = log.classify_log.request
                    request.input.example_list.examples.extend(map(_example, np.resize(_TEXTS, size)))
                else:
                    request = log.predict_log.request
                    for spec in specs:
                        request.inputs[spec.name].CopyFrom(tf.make_tensor_proto(_rows(spec, size)))
                request.model_spec.name = name
                request.model_spec.signature_name = signature
                file.write(log.SerializeToString())


def _example(text: str) -> Any:
    example = tf.train.Example()
    for name in ("text", "text_pair"):  # a signature reads one or both
        example.features.feature[name].bytes_list.value.append(text.encode())
    return example


def _rows(spec: Any, size: int) -> Any:
    shape = (size, *(dimension or 8 for dimension in (spec.shape[1:] if spec.shape.rank else ())))
    if spec.dtype == tf.string:
        return np.resize(np.array(_TEXTS, object), shape)
    return np.ones(shape, "int32")
