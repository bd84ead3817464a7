"""The signatures of an export with text in and answers out, in which ONNX Runtime computes the model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from keras_bert.exports.encoder_part import trace
from keras_bert.exports.manifest import MANIFEST
from keras_bert.exports.text_part import signatures_of, text_model
from keras_bert.lazy import tf
from keras_bert.onnx_graph.onnx_runner import OnnxRunner
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.storage import read_json
from keras_bert.weights.load import build
from keras_bert.weights.our_export import read_checkpoint, read_task

_OUTPUTS = ("embedding", "pooled_output", "sequence_output")  # of a model that is no task


def onnx_signatures(folder: Path, *, int8: bool) -> dict[str, Any]:
    """The signatures of a version of `text`, but for `attention` and `logits`.

    Tokenizer, packing and decoding stay in TensorFlow. The weights are in the session only, so they take memory
    once.
    """
    facts = read_json(folder / MANIFEST)
    if facts.get("dtype") == "int8":
        raise ValueError(
            f"{folder} was exported in int8, but ONNX Runtime needs the weights in float32. Export again without "
            "--dtype, and serve that export with --dtype int8. Received: dtype int8"
        )
    model = _model(folder)
    if getattr(model, "long", None) == "windows":
        raise ValueError(
            f'{folder} has a task with long="windows", which only TensorFlow serves. Leave --engine out. '
            "Received: --engine onnxruntime"
        )
    run = text_model(model)
    if isinstance(run.output, dict):
        run = keras.Model(run.input, {name: run.output[name] for name in _OUTPUTS})
    outputs = run.output
    runner = OnnxRunner(run, int8=int8)
    if not isinstance(model, Pretrainer):  # whose heads are asked apart
        _free(model)
    names = list(run.input)

    def compute(*inputs: Any) -> list[Any]:
        found = runner.on_padded(dict(zip(names, inputs, strict=True)))
        return [found[name] for name in outputs] if isinstance(outputs, dict) else list(found.values())

    def on_rows(rows: dict[str, Any]) -> Any:
        symbolic = keras.tree.flatten(outputs)
        found = tf.numpy_function(compute, [rows[name] for name in names], [tf.float32] * len(symbolic))
        for tensor, one in zip(found, symbolic, strict=True):
            tensor.set_shape(one.shape)
        return dict(zip(outputs, found, strict=True)) if isinstance(outputs, dict) else found[0]

    asked = signatures_of(model, on_rows, facts["seq_length"])
    return {name: trace(_by_keyword(signature.function), signature.inputs) for name, signature in asked.items()}


def _by_keyword(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a signature of a SavedModel takes its arguments."""
    return lambda **inputs: function(**inputs)


def _free(model: Any) -> None:
    """Give back the memory of weights that are no longer read."""
    for variable in model.variables:
        tf.raw_ops.DestroyResourceOp(resource=variable.value.handle)


def _model(folder: Path) -> Any:
    """The model that was exported. Beside the text part of a `Pretrainer`, the encoder part has the heads."""
    for part in (folder, folder.parents[1] / "encoder" / folder.name):
        model = read_task(part)
        if model is not None:
            return model
    checkpoint = read_checkpoint(folder)
    if checkpoint is None:
        raise ValueError(
            f"{folder} was not written by keras-bert export, so ONNX Runtime cannot compute it. Serve it without "
            f"--engine. Received: {folder}"
        )
    return build(checkpoint)
