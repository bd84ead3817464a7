"""TF Serving's Classify: serialized tf.Examples in, classes with scores out."""

from collections.abc import Callable
from typing import Any

from keras_bert.exports.encoder_export import serve

INPUTS, OUTPUTS = {"inputs"}, {"classes", "scores"}  # the names that TF Serving asks for


def of_examples(answer: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The signatures `classify`, of Examples with `text`, and `classify_pair`, of those with `text_pair` too."""
    return {"classify": _signature(answer, "text"), "classify_pair": _signature(answer, "text", "text_pair")}


def _signature(answer: Callable[..., dict[str, Any]], *names: str) -> Any:
    import tensorflow as tf

    def classify(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        features = tf.io.parse_example(inputs, {name: tf.io.FixedLenFeature([], tf.string) for name in names})
        found = answer(*(features[name] for name in names))
        return {"classes": found["labels"], "scores": found["scores"]}  # each [B, C]

    return serve(classify, {"inputs": tf.TensorSpec([None], tf.string, "inputs")})


def classifies(function: Any) -> bool:
    """Whether a signature, traced here or loaded, is one for Classify."""
    positional, named = function.structured_input_signature
    outputs = function.structured_outputs
    names = {spec.name for spec in (*positional, *named.values())}
    return names == INPUTS and isinstance(outputs, dict) and set(outputs) == OUTPUTS
