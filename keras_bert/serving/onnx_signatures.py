"""The signatures of an export with text in and answers out: ONNX Runtime computes the model, and numpy the rest."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_bert.compat import read_saved_model
from keras_bert.exports.manifest import MANIFEST
from keras_bert.exports.text_part import signatures_of, text_model
from keras_bert.lazy import tf
from keras_bert.onnx_graph.onnx_runner import OnnxRunner
from keras_bert.storage import read_json
from keras_bert.text.tensors import arrays
from keras_bert.weights.load import build
from keras_bert.weights.our_export import read_checkpoint, read_task

_OUTPUTS = ("embedding", "pooled_output", "sequence_output")  # of a model that is no task


class OnnxSignature(NamedTuple):
    """A signature from arrays to arrays. Its inputs and outputs are described as those of the SavedModel are."""

    function: Callable[..., dict[str, Any]]
    structured_input_signature: tuple[tuple[()], dict[str, Any]]
    structured_outputs: dict[str, Any]

    def __call__(self, **columns: np.ndarray) -> dict[str, np.ndarray]:
        with arrays():
            found = self.function(**columns)
        outputs = sorted(self.structured_outputs.items())
        return {name: np.asarray(found[name], spec.dtype.as_numpy_dtype) for name, spec in outputs}


def onnx_signatures(folder: Path, *, int8: bool) -> tuple[Any, dict[str, OnnxSignature]]:
    """The tokenizer of a version of `text`, and its signatures, but for `attention` and `logits`.

    The weights are in the session only, so they take memory once.
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
    runner, names = OnnxRunner(run, int8=int8), list(run.input)
    computing = threading.Lock()  # ONNX Runtime uses all cores for one batch

    def on_rows(rows: dict[str, Any]) -> Any:
        with computing:
            found = runner.on_padded({name: rows[name] for name in names})
        return found if isinstance(run.output, dict) else next(iter(found.values()))

    with arrays():
        asked = signatures_of(model, on_rows, facts["seq_length"], _head_runner)
    _free(model)
    specs = _specs(folder)
    signatures = {name: OnnxSignature(asked[name].function, *specs[name]) for name in specs if name in asked}
    return getattr(model, "bert", model).preprocessor.plain_tokenizer, signatures


def _head_runner(head: keras.Model) -> Callable[[Any], Any]:
    runner = OnnxRunner(head)
    return lambda inputs: runner.on_inputs(dict(zip(runner.inputs, keras.tree.flatten(inputs), strict=True)))


def _specs(folder: Path) -> dict[str, Any]:
    """What goes in and out of each signature of a SavedModel."""
    graph = read_saved_model((folder / "saved_model.pb").read_bytes()).meta_graphs[0]

    def described(tensors: Any) -> dict[str, Any]:
        return {name: tf.TensorSpec(one.tensor_shape, one.dtype, name) for name, one in sorted(tensors.items())}

    return {
        name: (((), described(one.inputs)), described(one.outputs))
        for name, one in sorted(graph.signature_def.items())
        if not name.startswith("__")  # what initializes the SavedModel
    }


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
