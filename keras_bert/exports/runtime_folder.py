"""`write_runtime_folder`: a model for ONNX or LiteRT runtimes, from packed ids to logits or vectors."""

import os
from pathlib import Path
from typing import Any

from keras_bert import kernels
from keras_bert.exports.new_version import check_free, check_version, folder_to_write, swap
from keras_bert.lazy import tf
from keras_bert.onnx_graph.convert import plain_model, to_onnx
from keras_bert.storage import errors_about
from keras_bert.weights.export_folder import EXTRA
from keras_bert.weights.our_export import write_settings
from keras_bert.weights.tokenizer_files import VOCABULARY

FILES = {"onnx": "model.onnx", "litert": "model.tflite"}
DTYPES = (None, "float32", "int8")


def write_runtime_folder(
    model: Any,
    directory: str | os.PathLike,
    format: str,
    *,
    version: int = 1,
    dtype: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write FORMAT/VERSION into a folder, and return the path: the model, vocab.txt and the settings of text and task.

    format: "onnx", in the operators of opset 23, or "litert". dtype: "float32", or "int8" for the weights of the
    encoder; the ranges of its inputs are found when it runs.
    """
    check_runtime_dtype(format, dtype)
    check_version(version)
    folder = Path(directory) / format / str(version)
    with folder_to_write(folder.parent, version) as writing:
        check_free(version, [folder], overwrite)
        made = writing / "made"
        with errors_about("write", os.fspath(directory), str(made)):
            made.mkdir()
            write_settings(model, made / EXTRA)
            getattr(model, "bert", model).preprocessor.vocabulary.save(made / VOCABULARY)
            write = {"onnx": _write_onnx, "litert": _write_litert}[format]
            write(model, made / FILES[format], int8=dtype == "int8")
        swap(made, folder)
    return folder


def check_runtime_dtype(format: str, dtype: str | None) -> None:
    """Refuse a dtype that files of this format cannot have."""
    if dtype not in DTYPES:
        raise ValueError(
            f"`dtype` of {format} files must be float32 or int8. Use one of them. Received: dtype={dtype!r}"
        )


def _write_onnx(model: Any, path: Path, *, int8: bool) -> None:
    path.write_bytes(to_onnx(model, int8=int8).SerializeToString())


def _write_litert(model: Any, path: Path, *, int8: bool) -> None:
    if kernels.BACKEND != "tensorflow":
        raise RuntimeError(
            "LiteRT files are made with the TensorFlow backend. Save the model with model.save(path), and export it in "
            f"a process with KERAS_BACKEND=tensorflow. Received: backend {kernels.BACKEND!r}"
        )
    options = {"optimizations": [tf.lite.Optimize.DEFAULT]} if int8 else {}
    with kernels.static_shapes():
        plain_model(model).export(str(path), format="litert", verbose=False, **options)
