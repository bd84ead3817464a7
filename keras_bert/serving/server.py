"""A server of exports for trying them out, with TF Serving's REST paths. For production there is TF Serving."""

import re
from http import HTTPMethod
from typing import TYPE_CHECKING, Any

from keras_bert.serving.batcher import Overloaded
from keras_bert.serving.rest import BadRequest, read_request, write_answer
from keras_bert.serving.rest_classify import read_examples, write_results
from keras_bert.serving.served_model import Served

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

MAX_BODY = 2 << 20  # bytes; the windows of such a context already take minutes
MAX_ROWS = 256
_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(/(?P<kind>versions|labels)/(?P<value>[^/:]+))?(?P<verb>:\w+|/metadata)?"
)
_VERBS = {":predict": (read_request, write_answer), ":classify": (read_examples, write_results)}


def application(models: dict[str, dict[int, Served]]) -> "Starlette":
    """The ASGI application that answers for these models."""
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import JSONResponse
        from starlette.routing import Route
    except ImportError:
        raise ImportError('The server needs starlette. Run: pip install "keras3-bert[serving]".') from None
    import tensorflow as tf

    async def answer(request: Request) -> JSONResponse:
        body = await _body(request)  # all of it, else the client may not come to read a refusal
        path = request.scope["path"]  # as it was sent, a line feed and all
        asked = _PATH.fullmatch(path)
        if asked is None:
            raise HTTPException(404, f"Malformed request: {request.method} {path}")
        name, verb = asked["name"], asked["verb"]
        if name not in models:
            raise HTTPException(404, f"Servable not found. This server has {sorted(models)}. Received: {name}")
        versions = models[name]
        version = _version(asked["kind"], asked["value"], versions)
        if version is None:
            has = f"versions {sorted(versions)}, and the labels stable and canary"
            raise HTTPException(
                404, f"Servable not found. {name} has {has}. Received: {asked['kind']}/{asked['value']}"
            )
        if verb not in (None, "/metadata", *_VERBS):
            raise HTTPException(400, f"These models are asked for {', '.join(_VERBS)}. Received: {verb}")
        methods = ("POST",) if verb in _VERBS else ("GET", "HEAD")
        if request.method not in methods:
            raise HTTPException(
                405,
                f"{path} is asked by {' or '.join(methods)}. Received: {request.method}",
                {"Allow": ", ".join(methods)},
            )
        if verb is None:
            return JSONResponse(_status([version] if asked["kind"] else sorted(versions, reverse=True)))
        if verb == "/metadata":
            spec = {"name": name, "signature_name": "", "version": str(version)}
            return JSONResponse({"model_spec": spec, "metadata": versions[version].metadata()})
        if body is None:
            raise HTTPException(413, f"A body has at most {MAX_BODY} bytes. Send fewer or shorter texts.")
        read, write = _VERBS[verb]
        wanted = read(body, versions[version].signatures, MAX_ROWS)
        return JSONResponse(write(wanted, await versions[version].batchers[wanted.signature](wanted.columns)))

    async def refused(request: Request, error: Any) -> JSONResponse:
        match error:
            case HTTPException():
                return JSONResponse({"error": error.detail}, error.status_code, error.headers)
            case BadRequest():
                status, message = 400, str(error)
            case tf.errors.InvalidArgumentError():
                status, message = 400, _reason(error.message)
            case ClientDisconnect():
                status, message = 499, "The client left."  # which nobody reads
            case Overloaded():
                status, message = 503, str(error)
            case _:  # logged besides
                status, message = 500, f"The server failed, and its log says how: {type(error).__name__}"
        return JSONResponse({"error": message}, status)

    kinds = (HTTPException, BadRequest, tf.errors.InvalidArgumentError, ClientDisconnect, Overloaded, Exception)
    return Starlette(
        routes=[Route("/{path:path}", answer, methods=list(HTTPMethod))],
        exception_handlers=dict.fromkeys(kinds, refused),
    )


async def _body(request: "Request") -> bytes | None:
    """What was sent, or None where it is too much."""
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        body += chunk if size <= MAX_BODY else b""
    return bytes(body) if size <= MAX_BODY else None


def _version(kind: str | None, value: str | None, versions: dict[int, Served]) -> int | None:
    """The version that a path asks for; of the labels `stable` is the older of the newest two, `canary` the newest."""
    if kind is None:
        return max(versions)
    if kind == "labels":
        return {"stable": sorted(versions)[-2:][0], "canary": max(versions)}.get(value or "")
    return next((version for version in versions if str(version) == value), None)


def _status(versions: list[int]) -> dict[str, Any]:
    state = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    return {"model_version_status": [{"version": str(version), **state} for version in versions]}


def _reason(message: str) -> str:
    """What an op said, without where it stands in the graph."""
    around = ("Graph execution error", "Detected at node", "<stack traces", "\t")
    said = [line for line in message.splitlines() if line.strip() and not line.startswith(around)]
    return said[0] if said else "The model could not compute this."
