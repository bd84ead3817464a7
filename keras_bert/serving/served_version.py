"""SavedModels as the development server runs them, whatever made them."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.exports.new_version import MANIFEST, PARTS, served_name
from keras_bert.lazy import tf
from keras_bert.serving.batcher import Batcher, BatchThreads, Columns, Run
from keras_bert.serving.predict_requests import BadRequest, ModelRequest
from keras_bert.serving.version_folders import WITHOUT_ENCODER, version_folders
from keras_bert.serving.work_limit import TooMuchWork, most_pieces, refusal
from keras_bert.storage import literal_path, read_json
from keras_bert.text.numpy_examples import InvalidArgumentError
from keras_bert.weights.tokenizer_files import VOCABULARY

# In how many pieces per unit of `seq_length` a text is shown at most, for signatures that do not show all pieces.
_WIDTHS = {"pieces": 2, "pieces_pair": 4, "attention": 1}
_TYPES = {"float16": "DT_HALF", "float32": "DT_FLOAT", "float64": "DT_DOUBLE"}  # others have their own names


def find_models(directory: Path, *, onnx: bool = False, int8: bool = False) -> "dict[str, dict[int, ServedVersion]]":
    """Every version of every part of an export, by the name under which TF Serving would serve the part.

    onnx: ONNX Runtime computes `text`, in int8 if asked for, and numpy the rest; `encoder` is not served.
    """
    folders = version_folders(directory, WITHOUT_ENCODER if onnx else PARTS)
    models: dict[str, dict[int, ServedVersion]] = {}
    tokenizers: dict[int, Any] = {}  # of each version's `preprocess`, the first part
    exports = _onnx_exports(folders.get("text", {}), int8) if onnx else {}
    threads = BatchThreads()
    for part, numbered in folders.items():
        versions = {
            number: OnnxVersion(folder, exports[number], threads)
            if number in exports
            else ServedVersion(folder, threads)
            for number, folder in numbered.items()
        }
        for number, version in versions.items():
            tokenizers.setdefault(number, getattr(version.loaded, "tokenize", None))
            version.tokenize = version.tokenize or tokenizers[number]
        models[served_name(directory.resolve().name, part)] = versions
    return models


def _onnx_exports(folders: dict[int, Path], int8: bool) -> dict[int, Any]:
    from keras_bert.serving.onnx_signatures import OnnxExport  # needs Keras, which the rest does without

    return {number: OnnxExport(folder, int8=int8) for number, folder in folders.items()}


class ServedVersion:
    """One version of a model, with a batcher for each of its signatures.

    threads: shared by the versions of a server, which then wait for one another.
    tokenize: from texts to ragged ids, by which the pieces of a request are counted; None if nothing can count them.
    """

    tokenize: Any = None
    loaded: Any = None

    def __init__(self, folder: Path, threads: BatchThreads | None = None) -> None:
        self.part = folder.parent.name
        self.facts = read_json(folder / MANIFEST)
        self.vocabulary_file = folder / "assets" / VOCABULARY  # which `preprocess` does not have
        self.signatures = self.load(folder)
        self.threads = threads or BatchThreads()
        self.batchers = {
            name: batcher_for(function, self.runner(function), self.threads)
            for name, function in self.signatures.items()
        }

    def load(self, folder: Path) -> dict[str, Any]:
        """The signatures of the SavedModel."""
        import tensorflow_text  # noqa: F401  registers its ops

        try:  # kept, since the signatures hold its variables weakly
            self.loaded = tf.saved_model.load(literal_path(folder))
        except (OSError, RuntimeError, ValueError, LookupError, tf.errors.OpError) as error:
            raise ValueError(
                f"{folder} could not be loaded. If a copy of it was interrupted, copy it or export it again. "
                f"Received: {(str(error).splitlines() or [type(error).__name__])[0]}"
            ) from error
        return dict(self.loaded.signatures)

    @staticmethod
    def runner(function: Any) -> Run:
        """The signature as a function from columns to columns."""
        specs = function.structured_input_signature[1]

        def run(columns: Columns) -> Columns:
            inputs = {name: tf.constant(array, specs[name].dtype) for name, array in columns.items()}
            try:
                outputs = function(**inputs)
            except UnicodeDecodeError:  # from the message of an op, which quotes the bytes it refused
                raise BadRequest("The model could not decode the bytes of this request. Send text in UTF-8.") from None
            except tf.errors.InvalidArgumentError as error:
                raise BadRequest(_reason(error.message)) from None
            return {name: tensor.numpy() for name, tensor in sorted(outputs.items())}

        return run

    async def run(self, request: ModelRequest, max_pieces: int) -> dict[str, Any]:
        """The answer to a request, unless it is too much work."""
        name = request.signature
        limits = (self.signatures[name].structured_outputs, max_pieces, self._widest(name))
        refused = refusal(most_pieces(request), *limits)
        if refused and request.texts and self.tokenize:
            refused = refusal(await self.threads.count(self.tokenize, request.texts), *limits)
        if refused:
            raise TooMuchWork(refused)
        outputs = await self.batchers[name](request.columns)
        for output, array in outputs.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise BadRequest(
                    f"The output {output!r} has numbers that are not finite, which JSON cannot hold. Send smaller "
                    "numbers; if the request has only texts, the weights are damaged. Received: NaN or infinity"
                )
        return outputs

    def _widest(self, signature: str) -> int | None:
        """The most pieces that a row of an answer shows, if that is limited."""
        seq_length = self.facts.get("seq_length")
        return _WIDTHS[signature] * seq_length if seq_length and signature in _WIDTHS else None

    def metadata(self) -> dict[str, Any]:
        """The inputs and outputs of every signature, in the form of TF Serving."""
        described = {
            name: {
                "inputs": {key: _described(spec) for key, spec in function.structured_input_signature[1].items()},
                "outputs": {key: _described(spec) for key, spec in function.structured_outputs.items()},
                "method_name": "tensorflow/serving/predict",
            }
            for name, function in self.signatures.items()
        }
        return {"signature_def": {"signature_def": described}}


class OnnxVersion(ServedVersion):
    """A version of `preprocess` or `text` that ONNX Runtime and numpy compute."""

    def __init__(self, folder: Path, export: Any, threads: BatchThreads | None = None) -> None:
        self.export = export
        self.tokenize = export.tokenize
        super().__init__(folder, threads)
        self.facts["dtype"] = export.dtype

    def load(self, folder: Path) -> dict[str, Any]:
        return self.export.signatures[self.part]

    @staticmethod
    def runner(signature: Any) -> Run:
        def run(columns: Columns) -> Columns:
            try:
                return signature(**columns)
            except InvalidArgumentError as error:
                raise BadRequest(str(error)) from None

        return run


def batcher_for(function: Any, run: Run, threads: BatchThreads) -> Batcher:
    """Runs requests together, unless the signature takes a fixed number of rows, as that of attention does."""
    sizes = [spec.shape[0] for spec in function.structured_input_signature[1].values() if spec.shape.rank]
    return Batcher(run, threads, max_rows=next((size for size in sizes if size), 64))


def _described(spec: Any) -> dict[str, Any]:
    any_rank = spec.shape.rank is None
    sizes = [{"size": str(-1 if size is None else size), "name": ""} for size in (() if any_rank else spec.shape)]
    shape = {"dim": sizes, "unknown_rank": any_rank}
    name = spec.dtype.name
    return {"dtype": _TYPES.get(name, f"DT_{name.upper()}"), "tensor_shape": shape, "name": spec.name}


def _reason(message: str) -> str:
    """The message of an op, without its place in the graph."""
    around = ("Graph execution error", "Detected at node", "<stack traces", "\t")
    said = [line for line in message.splitlines() if line.strip() and not line.startswith(around)]
    return said[0] if said else "The model could not compute this request."
