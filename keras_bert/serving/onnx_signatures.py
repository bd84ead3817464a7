"""The signatures of an export with text in and answers out: ONNX Runtime computes the model, and numpy the rest."""

import itertools
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_bert.exports.new_version import MANIFEST
from keras_bert.exports.preprocess_part import preprocess_signatures
from keras_bert.exports.text_part import signatures_of
from keras_bert.exports.text_reader import TextReader
from keras_bert.onnx_graph.onnx_runner import OnnxRunner
from keras_bert.serving.onnx_files import ERROR, HEAD, MODEL, RULES, SPECS
from keras_bert.storage import read_json
from keras_bert.text.tensors import arrays


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


class OnnxExport:
    """A version of `preprocess` and `text`: their signatures, but for `attention` and `logits`, and the tokenizer."""

    def __init__(self, folder: Path, *, int8: bool) -> None:
        self.dtype = "int8" if int8 else "float32"
        with tempfile.TemporaryDirectory() as made:
            run_writer(folder, made, int8)
            self._read(Path(made), read_json(folder / MANIFEST)["seq_length"])

    def _read(self, made: Path, seq_length: int) -> None:
        with arrays():
            model = keras.saving.deserialize_keras_object(read_json(made / RULES))
            heads = (_head_runner(OnnxRunner(str(made / HEAD.format(number)))) for number in itertools.count())
            run = _on_rows(OnnxRunner(str(made / MODEL)), self._half(made))
            text = signatures_of(model, run, seq_length, lambda head: next(heads))
            reader = TextReader.of(model, seq_length)
            asked = {"text": text, "preprocess": preprocess_signatures(reader, reader.preprocessor.tokenize)}
            self.signatures = {
                part: {
                    name: OnnxSignature(asked[part][name].function, ((), _specs(inputs)), _specs(outputs))
                    for name, (inputs, outputs) in specs.items()
                    if name in asked[part]
                }
                for part, specs in read_json(made / SPECS).items()
            }
        self._tokenizer = reader.preprocessor.plain_tokenizer

    def _half(self, made: Path) -> OnnxRunner | None:
        """A runner on half of the cores. Two of them answer more requests than one on all, but not in float32."""
        threads = (os.cpu_count() or 1) // 2
        return OnnxRunner(str(made / MODEL), threads) if threads and self.dtype == "int8" else None

    def tokenize(self, texts: Any) -> Any:
        with arrays():
            return self._tokenizer.tokenize(texts)


def run_writer(folder: Path, output: str, int8: bool) -> None:
    """Run `onnx_files`, whose process takes the memory of TensorFlow and of the model with it when it ends."""
    # -P: without it, Python would look for modules in the current folder first.
    command = [sys.executable, "-P", "-m", "keras_bert.serving.onnx_files", str(folder), output, *["--int8"] * int8]
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        error = Path(output, ERROR)
        if error.exists():
            raise ValueError(error.read_text(encoding="utf-8"))
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(
            f"{folder} could not be converted. Leave --engine out. Received: exit code {done.returncode}, {said}"
        )


def _on_rows(runner: OnnxRunner, half: OnnxRunner | None) -> Callable[[dict[str, Any]], Any]:
    """Runs a batch on all cores. A batch that comes meanwhile runs on half of them, or waits if `half` is None."""
    turns = threading.Semaphore(2 if half else 1)
    running: list[OnnxRunner] = []

    def on_rows(rows: dict[str, Any]) -> Any:
        with turns:
            one = half if half and running else runner
            running.append(one)
            try:
                found = one.on_padded({name: rows[name] for name in one.inputs})
            finally:
                running.remove(one)
        return found if one.several else found["output"]

    return on_rows


def _head_runner(runner: OnnxRunner) -> Callable[[Any], Any]:
    return lambda inputs: runner.on_inputs(dict(zip(runner.inputs, keras.tree.flatten(inputs), strict=True)))


class _Shape(tuple):
    rank: int | None


def _specs(described: dict[str, Any]) -> dict[str, Any]:
    """The description of tensors with the attributes of a `tf.TensorSpec`."""
    found = {}
    for name, (dtype, sizes) in described.items():
        shape = _Shape(sizes or ())
        shape.rank = None if sizes is None else len(sizes)
        kind = SimpleNamespace(name=dtype, as_numpy_dtype=np.dtype(object if dtype == "string" else dtype))
        found[name] = SimpleNamespace(name=name, dtype=kind, shape=shape)
    return found
