"""`keras-bert serve`: an export over REST on this machine, to try it out."""

import os
import socket
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from keras_bert_cli.contents import command


@command("serve", example="keras-bert serve saved_models/sentiment --port 8501")
def serve(
    directory: Annotated[Path, typer.Argument(help="The folder of an export.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 8501,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    max_pieces: Annotated[
        int, typer.Option(min=1, help="Most pieces in one request; a larger one gets a 413.")
    ] = 131_072,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Memory of the server, such as 4g; above it, new requests get a 503.", show_default="no limit"
        ),
    ] = None,
) -> None:
    """Serve an export under TF Serving's REST paths. It is a development server: use TF Serving in production."""
    try:
        from keras_bert.serving.connections import server
    except ImportError:
        raise ImportError('The server needs uvicorn. Run: pip install "keras3-bert[serving]"') from None
    from keras_bert.serving.memory_limit import MemoryLimit, read_size
    from keras_bert.serving.served_version import find_models
    from keras_bert.serving.server import application

    most_bytes = None if memory_limit is None else read_size(memory_limit)
    with _bound(host, port) as place:  # before loading the models, which takes a while
        # oneDNN reads this at the first matrix product: the weights of an export never change.
        os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")
        models = find_models(directory)
        memory = None if most_bytes is None else MemoryLimit(most_bytes)
        url = f"http://{f'[{host}]' if ':' in host else host}:{place.getsockname()[1]}/v1/models"
        for name, versions in models.items():
            typer.echo(f"{url}/{quote(name)}\tversions {', '.join(map(str, versions))}", err=True)
        typer.echo(
            "This is a development server. For production use TF Serving: see the export's serving/README.md.", err=True
        )
        server(application(models, max_pieces=max_pieces, memory=memory)).run(
            sockets=[place]
        )  # when it is stopped, it answers the open requests first


def _bound(host: str, port: int) -> socket.socket:
    """A socket that is bound to the port but does not listen yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY, which sends answers at once, only if the protocol is named.
    place = socket.socket(family, proto=socket.IPPROTO_TCP)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((host, port))
    except OSError as error:
        place.close()
        raise OSError(
            f"Could not listen on --host {host} --port {port}: {error.strerror}. "
            "Give another port, or 0 for a free one."
        ) from None
    return place
