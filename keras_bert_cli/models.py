"""`keras-bert models`: the names that `keras_bert.load` knows."""

import dataclasses
import json
from typing import Annotated

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.without_the_package import without_the_package


@command("models", example="keras-bert models --language korean")
def models(
    language: Annotated[
        str, typer.Option("--language", "-l", help="List only models whose language contains this word.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list with all fields.")] = False,
) -> None:
    """List the models that load by name."""
    from rich.console import Console
    from rich.table import Table

    with without_the_package():
        from keras_bert.weights import zoo

        known = [dataclasses.asdict(model) for model in zoo.list_models()]
    found = [model for model in known if language.lower() in model["language"].lower()]
    if not found:
        languages = dict.fromkeys(model["language"] for model in known)
        raise ValueError(f"--language must be one of {', '.join(languages)}. Received: {language!r}")
    console = Console()
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    elif console.is_terminal:
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("name", no_wrap=True)
        table.add_column("language")
        table.add_column("layers x units")
        table.add_column("parameters", justify="right")
        table.add_column("casing")
        for model in found:
            size, parameters = f"{model['layers']} x {model['hidden']}", f"{model['parameters'] / 1e6:.1f} M"
            table.add_row(model["name"], model["language"], size, parameters, "cased" if model["cased"] else "uncased")
        console.print(table)
    else:  # for grep and cut
        for model in found:
            size = f"{model['layers']}/{model['hidden']}/{model['heads']}"
            cased = "yes" if model["cased"] else "no"
            cells = (model["name"], model["language"], cased, size, f"{model['parameters']:,}", model["source"])
            typer.echo("\t".join((*cells, " ".join(model["aliases"]))))
