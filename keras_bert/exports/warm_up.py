"""Requests that TF Serving runs before a version gets traffic, so that no user waits for the first, slow run."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.installation import need
from keras_bert.lazy import tf
from keras_bert.tasks.signature import is_classify
from keras_bert.weights.export_folder import EXTRA

PATH = Path(EXTRA) / "tf_serving_warmup_requests"
_SIZES = (1, 8)  # rows of a request
_TEXTS = ("A short text.", "Another text, which is somewhat longer than the first one was.", "짧은 글.")


def write_warm_up(folder: Path, name: str, signatures: dict[str, Any]) -> None:
    """Write PredictionLog records for every signature of a SavedModel that is served under this name."""
    inputs = {spec.name: spec.dtype for function in signatures.values() for spec in _specs(function)}
    logs = need("tensorflow_serving.apis.prediction_log_pb2", "Writing requests for TF Serving", "serving")
    with tf.io.TFRecordWriter(str(folder / PATH)) as file:
        for signature, function in signatures.items():
            specs = _specs(function)
            fixed = {spec.shape[0] for spec in specs if spec.shape.rank} - {None}
            for size in fixed or _SIZES:
                log = logs.PredictionLog()
                if is_classify(function):
                    request = log.classify_log.request
                    texts = np.resize(_TEXTS, size)
                    request.input.example_list.examples.extend(_example(text, inputs) for text in texts)
                else:
                    request = log.predict_log.request
                    for spec in specs:
                        request.inputs[spec.name].CopyFrom(tf.make_tensor_proto(_rows(spec, size)))
                request.model_spec.name = name
                request.model_spec.signature_name = signature
                file.write(log.SerializeToString())


def _specs(function: Any) -> list[Any]:
    return [*function.structured_input_signature[0], *function.structured_input_signature[1].values()]


def _example(text: str, inputs: dict[str, Any]) -> Any:
    """An example with a feature for each input of any signature; each reads those that it needs."""
    example = tf.train.Example()
    for name, dtype in inputs.items():
        if dtype == tf.string:
            example.features.feature[name].bytes_list.value.append(text.encode())
        elif dtype == tf.float32:
            example.features.feature[name].float_list.value.append(1.0)
    return example


def _rows(spec: Any, size: int) -> Any:
    shape = (size, *(dimension or 8 for dimension in (spec.shape[1:] if spec.shape.rank else ())))
    if spec.dtype == tf.string:
        return np.resize(np.array(_TEXTS, object), shape)
    return np.ones(shape, spec.dtype.as_numpy_dtype)
