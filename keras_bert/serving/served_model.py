"""SavedModels as the development server runs them: nothing of how they were made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_bert.exports.new_version import PARTS, served_name
from keras_bert.serving.batcher import Batcher
from keras_bert.serving.rest import BadRequest
from keras_bert.storage import literal_path

_TYPES = {"string": "DT_STRING", "int32": "DT_INT32", "float32": "DT_FLOAT", "bool": "DT_BOOL"}


def find_models(directory: Path) -> "dict[str, dict[int, Served]]":
    """Every version of every part of an export, by the names that TF Serving would know them under."""
    models = {}
    for part in PARTS:
        folders = sorted((directory / part).glob("*/saved_model.pb"))
        versions = {int(path.parent.name): Served(path.parent) for path in folders if path.parent.name.isdecimal()}
        if versions:
            models[served_name(directory.resolve().name, part)] = versions
    if not models:
        raise FileNotFoundError(
            f"There must be an export with text/1, encoder/1 or preprocess/1. Make one with keras-bert export. "
            f"Received: {directory}"
        )
    return models


class Served:
    """One version of a model, with a batcher for each of its signatures."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers its ops

        self.loaded = tf.saved_model.load(literal_path(folder))  # kept, since the signatures hold its variables weakly
        self.signatures = dict(self.loaded.signatures)
        self.batchers = {name: Batcher(_runner(function)) for name, function in self.signatures.items()}

    def metadata(self) -> dict[str, Any]:
        """Inputs and outputs of every signature, as TF Serving tells them."""
        described = {
            name: {
                "inputs": {key: _described(spec) for key, spec in function.structured_input_signature[1].items()},
                "outputs": {key: _described(spec) for key, spec in function.structured_outputs.items()},
                "method_name": "tensorflow/serving/predict",
            }
            for name, function in self.signatures.items()
        }
        return {"signature_def": {"signature_def": described}}


def _runner(function: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    import tensorflow as tf

    specs = function.structured_input_signature[1]

    def run(columns: dict[str, Any]) -> dict[str, Any]:
        inputs = {name: tf.constant(array, specs[name].dtype) for name, array in columns.items()}
        try:
            outputs = function(**inputs)
        except UnicodeDecodeError:  # of the reason why an op refused, which quotes the bytes it was given
            raise BadRequest("The model cannot read these bytes.") from None
        return {name: tensor.numpy() for name, tensor in sorted(outputs.items())}

    return run


def _described(spec: Any) -> dict[str, Any]:
    sizes = [{"size": str(-1 if size is None else size), "name": ""} for size in spec.shape]
    shape = {"dim": sizes, "unknown_rank": False}
    return {"dtype": _TYPES[spec.dtype.name], "tensor_shape": shape, "name": spec.name}
