"""`keras-bert convert`: a model in any format, written in another."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.options import MODEL, CacheDir, LocalOnly


class Format(StrEnum):
    """The formats that can be written."""

    HF = "hf"
    GOOGLE = "google"
    KERAS_HUB = "keras-hub"
    KERAS_BERT = "keras-bert"


@command("convert", example="keras-bert convert uncased_L-12_H-768_A-12 --to hf bert-base")
def convert(
    source: Annotated[str, typer.Argument(help=MODEL)],
    directory: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    to: Annotated[Format, typer.Option("--to", help="The format to write.")],
    cache_dir: CacheDir = None,
    local_only: LocalOnly = False,
) -> None:
    """Convert a model to another format, load the result, and compare the outputs of both."""
    from keras_bert.weights.convert import convert

    done = convert(source, to.value, directory, cache_dir=cache_dir, local_only=local_only)
    checkpoint = done.checkpoint
    vocabulary = f"{len(checkpoint.vocabulary)} pieces" if checkpoint.vocabulary else "none"
    lines = [
        ("read", f"{checkpoint.source} ({checkpoint.format})"),
        ("encoder", f"{len(checkpoint.weights)} arrays"),
        *((f"head {name}", f"{len(head.weights)} arrays") for name, head in checkpoint.heads.items()),
        ("vocabulary", vocabulary),
        *((f"left out: {name}", reason) for name, reason in done.left_out.items()),
        ("written", f"{directory} ({to.value})"),
        ("largest difference of outputs", f"{done.difference:.1e}"),
    ]
    for name, value in lines:
        typer.echo(f"{name}\t{value}")
