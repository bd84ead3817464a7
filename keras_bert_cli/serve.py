"""`keras-bert serve`: an export over REST on this machine, and a page to try it out."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.sigterm import unwound_by_sigterm
from keras_bert_cli.without_the_package import without_the_package

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")]
MAX_PIECES = 262_144  # 512 rows of 512
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")]


@command("serve", example="keras-bert serve saved_models/sentiment --port 8501")
def serve(
    directory: Annotated[Path, typer.Argument(help="The folder of an export.")],
    port: Port = 8501,
    host: Host = "127.0.0.1",
    page: Annotated[bool, typer.Option("--page/--no-page", help="Answer GET / with a page to try the model.")] = True,
    max_pieces: Annotated[
        int, typer.Option(min=1, help="Most pieces in one request; a larger one gets a 413.")
    ] = MAX_PIECES,
    engine: Annotated[
        Literal["tensorflow", "onnxruntime"], typer.Option(help="What computes the answers to texts.")
    ] = "tensorflow",
    dtype: Annotated[
        Literal["float32", "int8"] | None,
        typer.Option(help="Type that ONNX Runtime computes in.", show_default="float32"),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Memory of the server, such as 4g; above it, new requests get a 503.", show_default="no limit"
        ),
    ] = None,
) -> None:
    """Serve an export under TF Serving's REST paths, with a page to try it.

    It is a development server: use TF Serving in production.
    """
    if dtype and engine == "tensorflow":
        raise ValueError(
            "--dtype is for ONNX Runtime, since TensorFlow computes in the type of the export. Add --engine "
            f"onnxruntime, or export the model with --dtype. Received: --dtype {dtype}"
        )
    if engine == "onnxruntime" and "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "numpy"  # the server does not hold TensorFlow
        if find_spec("jax") is None:
            raise ImportError(
                "--engine onnxruntime needs the package jax, which Keras's numpy backend imports. "
                "Run: pip install 'keras3-bert[onnxruntime]'. Received: no module 'jax'"
            )
    with without_the_package():
        from keras_bert.serving.memory_limit import read_size
        from keras_bert.serving.version_folders import PARTS, WITHOUT_ENCODER, version_folders

        limit = None if memory_limit is None else read_size(memory_limit)
    with bound(host, port) as place:  # before loading the models, which takes a while
        version_folders(directory, PARTS if engine == "tensorflow" else WITHOUT_ENCODER)  # an error if there are none
        run_server(
            directory,
            place,
            page=page,
            max_pieces=max_pieces,
            memory_limit=limit,
            onnx=engine == "onnxruntime",
            int8=dtype == "int8",
        )


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that is bound to the port but does not listen yet, for a server whose packages are there."""
    if not host.strip():  # which a socket takes for all addresses
        raise ValueError("--host is empty. Give an address, or 0.0.0.0 to accept other machines. Received: --host ''")
    with without_the_package():
        from keras_bert.installation import need

        need("uvicorn", "The server", "serving")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY, which sends answers at once, only if the protocol is named.
    with socket.socket(family, proto=socket.IPPROTO_TCP) as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((host, port))
        except OSError as error:
            raise _cannot_listen(error, host, port) from None
        try:
            yield place
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise _cannot_listen(error, host, port) from None  # to another server that was also loading its models


def _cannot_listen(error: OSError, host: str, port: int) -> OSError:
    return OSError(
        f"The server could not listen: {error.strerror}. Give another port, or 0 for a free one; --host must be an "
        f"address of this machine. Received: --host {host} --port {port}"
    )


def run_server(
    directory: Path,
    place: socket.socket,
    *,
    page: bool,
    max_pieces: int = MAX_PIECES,
    memory_limit: int | None = None,
    onnx: bool = False,
    int8: bool = False,
) -> None:
    """Load the models of an export, and answer requests until the process is stopped."""
    from keras_bert.serving.connections import server
    from keras_bert.serving.memory_limit import MemoryLimit
    from keras_bert.serving.page import make_page
    from keras_bert.serving.served_version import find_models
    from keras_bert.serving.server import application

    # oneDNN reads this at the first matrix product: the weights of an export never change.
    os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")
    with unwound_by_sigterm():
        models = find_models(directory, onnx=onnx, int8=int8)
    host, port = place.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    for name, versions in models.items():
        typer.echo(f"{url}/v1/models/{quote(name)}\tversions {', '.join(map(str, versions))}", err=True)
    if page:
        typer.echo(f"Try it in a browser: {url}/", err=True)
    typer.echo(
        "This is a development server. For production, use TF Serving: `keras-bert export` writes a folder serving/ "
        "with a README.md that shows how.",
        err=True,
    )
    memory = None if memory_limit is None else MemoryLimit(memory_limit)
    start = application(models, make_page(models) if page else None, max_pieces=max_pieces, memory=memory)
    server(start).run(sockets=[place])  # when it is stopped, it answers the open requests first
