"""`keras-bert models`: the names that load knows."""

import dataclasses
import json
from itertools import accumulate

import typer

from keras_bert_cli import app

COLUMNS = ("name", "language", "cased", "L/H/A", "parameters", "source", "other names")


@app.command(epilog="Example: keras-bert models --language korean")
def models(
    language: str = typer.Option("", "--language", "-l", help="Only models whose language has this word."),
    as_json: bool = typer.Option(False, "--json", help="One JSON list."),
) -> None:
    """List the models that load by name."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Column, Table

    from keras_bert.weights.zoo import list_models

    found = [model for model in list_models() if language.lower() in model.language.lower()]
    if not found:
        languages = dict.fromkeys(model.language for model in list_models())
        raise ValueError(f"--language must be one of {', '.join(languages)}. Received: {language!r}")
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(model) for model in found], ensure_ascii=False))
        return
    rows = [
        (
            model.name,
            model.language,
            "yes" if model.cased else "no",
            f"{model.layers}/{model.hidden}/{model.heads}",
            f"{model.parameters:,}",
            model.source,
            " ".join(model.aliases),
        )
        for model in found
    ]
    console = Console()
    if not console.is_terminal:  # for grep and cut
        for row in rows:
            typer.echo("\t".join(row))
        return
    # The first columns, as many as there is room for: names stay whole, and what is longer than 40 may wrap.
    ends = accumulate(min(40, max(map(cell_len, column))) + 1 for column in zip(COLUMNS, *rows, strict=True))
    shown = max(1, sum(end <= console.width + 1 for end in ends))
    columns = [Column(name, overflow="fold") for name in COLUMNS[:shown]]
    table = Table(*columns, box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for row in rows:
        table.add_row(*row[:shown])
    console.print(table)
