"""A server of exports for trying them out, with TF Serving's REST paths. For production there is TF Serving.

It runs the SavedModels alone: nothing of how they were made.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.hub.batching import Batcher, Overloaded
from keras_bert.hub.rest import BadRequest, read_request, write_answer
from keras_bert.hub.rest_classify import read_examples, write_results

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

MAX_BODY = 8 << 20  # bytes
MAX_ROWS = 256
_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(/(?P<kind>versions|labels)/(?P<value>[^/:]+))?(?P<verb>:\w+|/metadata)?"
)
_VERBS = {":predict": (read_request, write_answer), ":classify": (read_examples, write_results)}
_TYPES = {"string": "DT_STRING", "int32": "DT_INT32", "float32": "DT_FLOAT", "bool": "DT_BOOL"}


class Model:
    """One version of a model, with a batcher for each of its signatures."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  registers its ops

        self.loaded = tf.saved_model.load(str(folder))  # kept, since the signatures hold its variables weakly
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


def find_models(directory: Path) -> dict[str, dict[int, Model]]:
    """Every version of every part of an export: its `text` under the name of the folder, the others as NAME-PART."""
    models = {}
    for part in ("text", "encoder", "preprocess"):
        folders = sorted((directory / part).glob("*/saved_model.pb"))
        versions = {int(path.parent.name): Model(path.parent) for path in folders if path.parent.name.isdecimal()}
        if versions:
            name = directory.resolve().name
            models[name if part == "text" else f"{name}-{part}"] = versions
    if not models:
        raise FileNotFoundError(
            f"There must be an export with text/1, encoder/1 or preprocess/1. Make one with keras-bert export. "
            f"Received: {directory}"
        )
    return models


def application(models: dict[str, dict[int, Model]]) -> "Starlette":
    """The ASGI application that answers for these models."""
    try:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import JSONResponse
        from starlette.routing import Route
    except ImportError:
        raise ImportError('The server needs starlette. Run: pip install "keras3-bert[serving]".') from None
    import tensorflow as tf

    def refused(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": message}, status)

    async def failed(request: Request, error: Exception) -> JSONResponse:
        return refused(500, f"The server failed, and its log says how: {type(error).__name__}")

    async def answer(request: Request) -> JSONResponse:
        body = await _body(request)  # all of it, else the client may not come to read a refusal
        found = _PATH.fullmatch(request.url.path)
        if found is None:
            return refused(404, f"Malformed request: {request.method} {request.url.path}")
        versions = models.get(found["name"])
        if versions is None:
            return refused(404, f"Servable not found. This server has {sorted(models)}. Received: {found['name']}")
        version = _version(found["kind"], found["value"], versions)
        if version is None:
            return refused(404, f"Servable not found. {found['name']} has versions {sorted(versions)}.")
        if found["verb"] in (None, "/metadata"):
            if request.method != "GET":
                return refused(405, f"{request.url.path} is asked by GET. Received: {request.method}")
            if found["verb"] is None:
                return JSONResponse(_status([version] if found["kind"] else sorted(versions, reverse=True)))
            spec = {"name": found["name"], "signature_name": "", "version": str(version)}
            return JSONResponse({"model_spec": spec, "metadata": versions[version].metadata()})
        if found["verb"] not in _VERBS:
            return refused(400, f"These models are asked for {', '.join(_VERBS)}. Received: {found['verb']}")
        if request.method != "POST":
            return refused(405, f"{found['verb']} is asked by POST. Received: {request.method}")
        read, write = _VERBS[found["verb"]]
        if body is None:
            return refused(413, f"A body has at most {MAX_BODY} bytes. Send fewer or shorter texts.")
        try:
            asked = read(body, versions[version].signatures, MAX_ROWS)
            return JSONResponse(write(asked, await versions[version].batchers[asked.signature](asked.columns)))
        except BadRequest as error:
            return refused(400, str(error))
        except Overloaded as error:
            return refused(503, str(error))
        except tf.errors.InvalidArgumentError as error:
            return refused(400, _reason(error.message))

    methods = ["GET", "POST", "PUT", "DELETE", "PATCH"]
    routes = [Route("/{path:path}", answer, methods=methods)]
    return Starlette(routes=routes, exception_handlers={Exception: failed})  # which is logged too


async def _body(request: "Request") -> bytes | None:
    """What was sent, or None where it is too much."""
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        body += chunk if size <= MAX_BODY else b""
    return bytes(body) if size <= MAX_BODY else None


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


def _reason(message: str) -> str:
    """What an op said, without where it stands in the graph."""
    around = ("Graph execution error", "Detected at node", "<stack traces", "\t")
    said = [line for line in message.splitlines() if line.strip() and not line.startswith(around)]
    return said[0] if said else "The model could not compute this."


def _version(kind: str | None, value: str | None, versions: dict[int, Model]) -> int | None:
    """The version that a path asks for; of the labels `stable` is the older of the newest two, `canary` the newest."""
    if kind is None:
        return max(versions)
    if kind == "labels":
        return {"stable": sorted(versions)[-2:][0], "canary": max(versions)}.get(value or "")
    return next((version for version in versions if str(version) == value), None)


def _status(versions: list[int]) -> dict[str, Any]:
    state = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    return {"model_version_status": [{"version": str(version), **state} for version in versions]}


def _described(spec: Any) -> dict[str, Any]:
    sizes = [{"size": str(-1 if size is None else size), "name": ""} for size in spec.shape]
    shape = {"dim": sizes, "unknown_rank": False}
    return {"dtype": _TYPES[spec.dtype.name], "tensor_shape": shape, "name": spec.name}
