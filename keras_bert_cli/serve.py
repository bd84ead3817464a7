"""`keras-bert serve`: an export over REST on this machine, for trying it out."""

import os
import socket
from pathlib import Path
from urllib.parse import quote

import typer

from keras_bert_cli import app


@app.command(epilog="Example: keras-bert serve saved_models/sentiment --port 8501")
def serve(
    directory: Path = typer.Argument(..., help="The folder of an export."),
    port: int = typer.Option(8501, min=0, max=65535, help="0 takes a free one."),
    host: str = typer.Option("127.0.0.1", help="0.0.0.0 lets other machines in."),
) -> None:
    """Serve an export with TF Serving's REST paths. A development server: for production take TF Serving."""
    try:
        import uvicorn
    except ImportError:
        raise ImportError('The server needs uvicorn. Run: pip install "keras3-bert[serving]".') from None
    from keras_bert.serving.served_model import find_models
    from keras_bert.serving.server import application

    with _bound(host, port) as place:  # before the models, which take a while
        os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")  # which they are here; read at the first product
        models = find_models(directory)
        server = uvicorn.Server(uvicorn.Config(application(models), access_log=False))  # stops when all is answered
        url = f"http://{f'[{host}]' if ':' in host else host}:{place.getsockname()[1]}/v1/models"
        for name, versions in models.items():
            typer.echo(f"{url}/{quote(name)}\tversions {', '.join(map(str, versions))}", err=True)
        typer.echo(
            "A development server. For production take TF Serving, see serving/README.md of the export.", err=True
        )
        server.run(sockets=[place])


def _bound(host: str, port: int) -> socket.socket:
    """A socket that has the port, and does not listen yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    place = socket.socket(family, proto=socket.IPPROTO_TCP)  # only where it is told does asyncio send answers at once
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((host, port))
    except OSError as error:
        place.close()
        raise OSError(
            "--host and --port must be an address of this machine and a port that is free. Give another port, or 0. "
            f"Received: {host} and {port}: {error.strerror}"
        ) from None
    return place
