"""What `serve --engine onnxruntime` reads of an export: graphs with the weights, and the rest as JSON.

A process of its own writes it, and takes the memory of TensorFlow and of the model with it when it ends:

    python -m keras_bert.serving.onnx_files EXPORT/text/VERSION OUTPUT [--int8]
"""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from keras_bert.compat import read_saved_model
from keras_bert.exports.new_version import MANIFEST
from keras_bert.exports.text_part import signatures_of, text_model
from keras_bert.lazy import tf
from keras_bert.onnx_graph.convert import to_onnx
from keras_bert.onnx_graph.onnx_runner import graph_for_this_cpu
from keras_bert.pretraining.pretrainer import Pretrainer
from keras_bert.storage import read_json, write_json
from keras_bert.tasks.long_text_task import LongTextTask
from keras_bert.text.tensors import arrays
from keras_bert.weights.load import build
from keras_bert.weights.our_export import read_checkpoint, read_task

MODEL, HEAD, RULES, SPECS = "model.onnx", "head-{}.onnx", "rules.json", "signatures.json"
ERROR = "error.txt"
SERVED_PARTS = ("preprocess", "text")
_OUTPUTS = ("embedding", "pooled_output")  # of a model that is no task
_SMALL = {"hidden_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 2}


def write(folder: Path, output: Path, *, int8: bool) -> None:
    """Write the files of a version of `text`.

    RULES is the model as Keras writes it, but of the smallest size: what splits texts and decodes answers, without
    weights. SPECS has the inputs and outputs of the signatures of each part.
    """
    if read_json(folder / MANIFEST).get("dtype") == "int8":
        raise ValueError(
            f"{folder} was exported in int8, but ONNX Runtime makes int8 from weights in float32. Export again "
            "without --dtype, and serve that export with --dtype int8. Received: dtype int8"
        )
    model = _model(folder)
    if isinstance(model, LongTextTask) and model.long == "windows":
        raise ValueError(
            f'{folder} has a task with long="windows", which only TensorFlow serves. Leave --engine out. '
            "Received: --engine onnxruntime"
        )
    run = text_model(model)
    if isinstance(run.output, dict):
        read = (*_OUTPUTS, "sequence_output") if isinstance(model, Pretrainer) else _OUTPUTS  # for masked words
        run = keras.Model(run.input, {name: run.output[name] for name in read})
    (output / MODEL).write_bytes(graph_for_this_cpu(run, int8=int8))
    files = itertools.count()

    def write_head(head: keras.Model) -> Callable[[Any], Any]:
        (output / HEAD.format(next(files))).write_bytes(to_onnx(head).SerializeToString())
        return head

    with arrays():
        signatures_of(model, run, 3, write_head)
    write_json(output / RULES, _small(keras.saving.serialize_keras_object(model)))
    write_json(output / SPECS, {part: _specs(folder.parents[1] / part / folder.name) for part in SERVED_PARTS})


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


def _small(config: dict[str, Any]) -> dict[str, Any]:
    """The config of a model of the smallest size with the same rules, whose layers are as they are made."""
    bert = config["config"].get("bert", config)
    for one in (config, bert):
        one["config"]["changed_layers"] = type(one["config"]["changed_layers"])()
    bert["config"]["config"] |= _SMALL
    bert["config"]["dtype"] = "float32"
    if config["config"].get("mlm_config"):
        config["config"]["mlm_config"] |= _SMALL
    return config


def _specs(folder: Path) -> dict[str, Any]:
    """The type and the shape of what goes in and out of each signature of a SavedModel."""
    file = folder / "saved_model.pb"
    if not file.is_file():
        return {}

    def described(tensors: Any) -> dict[str, Any]:
        return {name: [tf.as_dtype(one.dtype).name, _shape(one.tensor_shape)] for name, one in sorted(tensors.items())}

    return {
        name: [described(one.inputs), described(one.outputs)]
        for name, one in sorted(read_saved_model(file.read_bytes()).meta_graphs[0].signature_def.items())
        if not name.startswith("__")  # what initializes the SavedModel
    }


def _shape(shape: Any) -> list[int | None] | None:
    return None if shape.unknown_rank else [None if dim.size < 0 else dim.size for dim in shape.dim]


if __name__ == "__main__":
    try:
        write(Path(sys.argv[1]), Path(sys.argv[2]), int8="--int8" in sys.argv)
    except Exception as error:
        Path(sys.argv[2], ERROR).write_text(str(error), encoding="utf-8")
        raise
