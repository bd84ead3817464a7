"""Requests that TF Serving runs before a version takes traffic, so that no user's request is the first."""

from pathlib import Path
from typing import Any

PATH = Path("assets.extra") / "tf_serving_warmup_requests"
_SIZES = (1, 8)  # rows of a request
_TEXTS = ("A short text.", "Another text, which is somewhat longer than the first one was.", "짧은 글.")


def write_warm_up(folder: Path, name: str, signatures: dict[str, Any]) -> None:
    """Write PredictionLog records for every signature of a SavedModel, as the model `name` would get them."""
    try:
        from tensorflow_serving.apis import predict_pb2, prediction_log_pb2
    except ImportError:
        raise ImportError(
            'TF Serving\'s protocols are missing. Run: pip install "keras3-bert[serving]". '
            "Received: no package tensorflow-serving-api"
        ) from None
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(folder / PATH)) as file:
        for signature, function in signatures.items():
            inputs = _inputs(function)
            for size in _SIZES:
                request = predict_pb2.PredictRequest()
                request.model_spec.name = name
                request.model_spec.signature_name = signature
                for key, spec in inputs.items():
                    request.inputs[key].CopyFrom(tf.make_tensor_proto(_rows(spec, size)))
                log = prediction_log_pb2.PredictLog(request=request)
                file.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())


def _inputs(function: Any) -> dict[str, Any]:
    """The inputs of a signature by name, whether it is a function with one trace or that trace."""
    concrete = function.get_concrete_function() if hasattr(function, "get_concrete_function") else function
    positional, named = concrete.structured_input_signature
    return {spec.name: spec for spec in (*positional, *named.values())}


def _rows(spec: Any, size: int) -> Any:
    import numpy as np
    import tensorflow as tf

    shape = (size, *(dimension or 8 for dimension in spec.shape[1:]))
    if spec.dtype == tf.string:
        return np.resize(np.array(_TEXTS, object), shape)
    return np.ones(shape, "int32")
