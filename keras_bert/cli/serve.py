"""`keras-bert serve`: an export over REST on this machine, for trying it out."""

from pathlib import Path

import typer

from keras_bert.cli import app


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
    from keras_bert.hub.server import application, find_models

    models = find_models(directory)
    for name, versions in models.items():
        typer.echo(f"/v1/models/{name}\tversions {', '.join(map(str, versions))}", err=True)
    typer.echo("A development server. For production take TF Serving, see serving/README.md of the export.", err=True)
    uvicorn.run(application(models), host=host, port=port, timeout_graceful_shutdown=30, access_log=False)
