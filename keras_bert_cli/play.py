"""`keras-bert play`: a model in the browser, with one command."""

import gc
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.export import load_any
from keras_bert_cli.options import MODEL, CacheDir, LocalOnly, SeqLength, known_model
from keras_bert_cli.serve import Host, Port, bound, run_server
from keras_bert_cli.sigterm import unwound_by_sigterm


@command("play", example="keras-bert play runs/sentiment")
def play(
    source: Annotated[str, typer.Argument(metavar="MODEL", callback=known_model, help=MODEL)],
    port: Port = 8501,
    host: Host = "127.0.0.1",
    seq_length: SeqLength = None,
    cache_dir: CacheDir = None,
    local_only: LocalOnly = False,
) -> None:
    """Try a model on a page in the browser: export it into a temporary folder, and serve it until Ctrl-C."""
    from keras_bert.exports.export import export

    with unwound_by_sigterm(), bound(host, port) as place, TemporaryDirectory(prefix="keras-bert-play-") as made:
        folder = Path(made) / _name(source)
        model = load_any(source, cache_dir=cache_dir, local_only=local_only)
        typer.echo("Exporting the model into a temporary folder ...", err=True)
        export(model, folder, seq_length=seq_length, attention=True, source=source)
        del model
        gc.collect()  # the server has the weights of the export
        run_server(folder, place, page=True)


def _name(source: str) -> str:
    """A name for the model in URLs: the last part of its source, as far as it is letters, digits, - and _."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(source).stem).strip("-") or "model"
