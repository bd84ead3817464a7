"""A development server for exports, with the REST paths of TF Serving, which is the server for production."""

import asyncio
import json
import re
from http import HTTPMethod
from typing import TYPE_CHECKING, Any

from keras_bert.installation import need
from keras_bert.serving.batcher import Overloaded
from keras_bert.serving.classify_requests import read_classify_request, write_results
from keras_bert.serving.memory_limit import MemoryLimit
from keras_bert.serving.page import Page
from keras_bert.serving.predict_requests import MAX_BODY, BadRequest, read_request, write_answer
from keras_bert.serving.served_version import ServedVersion
from keras_bert.serving.work_limit import MAX_PIECES, TooMuchWork

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

_MANY_VALUES = 100_000  # of an answer, which a thread writes, so that other clients do not wait for it
_MANY_BYTES = 100_000  # of a request, which a thread reads for the same reason
_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(/(?P<kind>versions|labels)/(?P<value>[^/:]+))?(?P<verb>:\w+|/metadata)?"
)
_VERBS = {":predict": (read_request, write_answer), ":classify": (read_classify_request, write_results)}
_STATUS = {BadRequest: 400, TooMuchWork: 413, Overloaded: 503}


def application(
    models: dict[str, dict[int, ServedVersion]],
    page: Page | None = None,
    *,
    max_pieces: int = MAX_PIECES,
    memory: MemoryLimit | None = None,
) -> "Starlette":
    """The ASGI application that answers for these models, and at / with the page, if there is one.

    max_pieces: the most pieces of a request. memory: while its limit is exceeded, requests are refused.
    """
    need("starlette", "The server", "serving")
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    writes = asyncio.Semaphore(2)  # of large answers, which take memory

    async def answer(request: Request) -> Response:
        full = request.method == "POST" and memory is not None and memory.is_exceeded()
        # All of the body is read, or the client might not get to read a refusal.
        body = await _body(request, 0 if full else MAX_BODY)
        path = request.scope["path"]  # as it was sent, even with a line feed
        if path == "/" and page is not None and request.method in ("GET", "HEAD"):
            return HTMLResponse(page.html, headers=page.headers)
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
            raise HTTPException(400, f"A path may end in {', '.join(_VERBS)}. Received: {verb}")
        methods = ("POST",) if verb in _VERBS else ("GET", "HEAD")
        if request.method not in methods:
            raise HTTPException(
                405,
                f"{path} answers {' or '.join(methods)}. Received: {request.method}",
                {"Allow": ", ".join(methods)},
            )
        if verb is None:
            return JSONResponse(_availability([version] if asked["kind"] else sorted(versions, reverse=True)))
        if verb == "/metadata":
            spec = {"name": name, "signature_name": "", "version": str(version)}
            return JSONResponse({"model_spec": spec, "metadata": versions[version].metadata()})
        if full:
            raise Overloaded("The server is short of memory (--memory-limit). Try again later.")
        if body is None:
            raise HTTPException(413, f"A body may have at most {MAX_BODY} bytes. Send fewer or shorter texts.")
        if (coding := request.headers.get("content-encoding", "identity")) != "identity":
            raise HTTPException(415, f"Send the body without compression. Received: Content-Encoding: {coding}")
        read, write = _VERBS[verb]
        if len(body) <= _MANY_BYTES:
            wanted = read(body, versions[version].signatures)
        else:
            wanted = await asyncio.to_thread(read, body, versions[version].signatures)
        del body
        outputs = await versions[version].run(wanted, max_pieces)
        if sum(array.size for array in outputs.values()) <= _MANY_VALUES:
            return JSONResponse(write(wanted, outputs))
        async with writes:
            body = await asyncio.to_thread(lambda: _json(write(wanted, outputs)).encode())
        return Response(body, media_type="application/json")

    async def refused(request: Request, error: Any) -> JSONResponse:
        match error:
            case HTTPException():
                status, message = error.status_code, error.detail
            case ClientDisconnect():
                status, message = 499, "The client left."  # nobody reads it
            case BadRequest() | TooMuchWork() | Overloaded():
                status, message = _STATUS[type(error)], str(error)
            case _:  # the server logs it too
                status, message = 500, f"The server failed. See its log. Received: {type(error).__name__}"
        shown = message.encode("utf-8", "backslashreplace").decode()  # it may quote half of a surrogate pair
        return JSONResponse({"error": shown}, status, getattr(error, "headers", None))

    kinds = (HTTPException, ClientDisconnect, *_STATUS, Exception)
    return Starlette(
        routes=[Route("/{path:path}", answer, methods=list(HTTPMethod))],
        exception_handlers=dict.fromkeys(kinds, refused),
    )


def _json(x: Any) -> str:
    """JSON, written list by list: Python's own encoder would let no other thread run before its end."""
    if isinstance(x, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_json(value)}" for key, value in x.items()) + "}"
    if isinstance(x, list) and x and isinstance(x[0], list | dict):
        return "[" + ",".join(map(_json, x)) + "]"
    return json.dumps(x, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


async def _body(request: "Request", most: int) -> bytes | None:
    """What was sent, or None where that is more than so many bytes."""
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        body += chunk if size <= most else b""
    return bytes(body) if size <= most else None


def _version(kind: str | None, value: str | None, versions: dict[int, ServedVersion]) -> int | None:
    """The version that a path names. The label `canary` is the newest version, `stable` the older of the newest two."""
    if kind is None:
        return max(versions)
    if kind == "labels":
        return {"stable": sorted(versions)[-2:][0], "canary": max(versions)}.get(value or "")
    return next((version for version in versions if str(version) == value), None)


def _availability(versions: list[int]) -> dict[str, Any]:
    state = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    return {"model_version_status": [{"version": str(version), **state} for version in versions]}
