"""`keras-bert embed`: texts to vectors, and a map of them."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from keras_bert_cli import CACHE_DIR, LOCAL_ONLY, MODEL, MOST, app, check_new_file, standard_input
from keras_bert_cli.finetune import column


class Combine(StrEnum):
    """How the vectors of several layers become one."""

    CONCAT = "concat"
    SUM = "sum"
    MEAN = "mean"


class Pooling(StrEnum):
    """How the vectors of a text's tokens become one."""

    MEAN = "mean"
    CLS = "cls"
    MAX = "max"
    POOLED = "pooled"


TABLES = (".tsv", ".csv", ".jsonl")
AS_TRAINED = "as the model says, else "


@app.command(epilog="Example: keras-bert embed texts.txt --model base --output vectors.npy --plot map.png")
def embed(
    file: Path = typer.Argument(
        Path("-"), dir_okay=False, allow_dash=True, help="A text a line, or .tsv, .csv, .jsonl; - is standard input."
    ),
    model: str = typer.Option("base", "--model", "-m", help=MODEL),
    output: Path | None = typer.Option(None, "--output", "-o", help="Where the vectors go, .npy, a row a text."),
    as_json: bool = typer.Option(False, "--json", help="A JSON object a text on standard output: text and vector."),
    plot: Path | None = typer.Option(None, help="Where a map of the texts goes, .png, .svg or .pdf."),
    text: str = typer.Option("text", help="Of a table: the column with the texts, by name or number from 0."),
    label_column: str | None = typer.Option(None, help="Of a table: the column that colours the map."),
    layer: list[int] = typer.Option([-1], help="An encoder block, from 0 or from -1 backwards; may be repeated."),
    combine: Combine = typer.Option(Combine.CONCAT, help="What becomes of several layers."),
    pooling: Pooling | None = typer.Option(None, help="What becomes of the tokens.", show_default=AS_TRAINED + "mean"),
    normalize: bool | None = typer.Option(None, help="Scale to length 1.", show_default=AS_TRAINED + "no"),
    max_length: int | None = typer.Option(
        None, min=3, max=MOST, help="Pieces at most.", show_default=AS_TRAINED + "all"
    ),
    cache_dir: str | None = CACHE_DIR,
    local_only: bool = LOCAL_ONLY,
) -> None:
    """Turn texts into vectors, in the order of the lines; an empty line is an empty text."""
    import numpy as np

    from keras_bert.pictures.embeddings import check_map, draw_embeddings
    from keras_bert.storage import new_file
    from keras_bert.weights.load import load

    if output is None and plot is None and not as_json:
        raise typer.BadParameter("Say where the vectors go: --output, --json or --plot.")
    check_new_file(output, "--output")
    check_new_file(plot, "--plot")
    texts, labels = _read(file, text, label_column)
    if plot is not None:
        check_map(len(texts), labels, plot)
    bert = load(model, cache_dir=cache_dir, local_only=local_only)
    options: dict[str, Any] = {"pooling": pooling and pooling.value, "normalize": normalize, "max_length": max_length}
    given = {name: value for name, value in options.items() if value is not None}
    vectors = bert.embed(texts, layers=tuple(layer), combine=combine.value, **given)  # [n, d]
    if output is not None:
        with new_file(str(output)) as temporary, open(temporary, "wb") as array:
            np.save(array, vectors)
    if plot is not None:
        with new_file(str(plot)) as temporary:
            draw_embeddings(vectors, texts, temporary, labels=labels, format=plot.suffix[1:].lower())
    if as_json:
        for row, vector in zip(texts, vectors.tolist(), strict=True):
            typer.echo(json.dumps({"text": row, "vector": vector}, ensure_ascii=False))
    else:
        typer.echo(f"{' and '.join(map(str, filter(None, (output, plot))))}: {len(vectors)} texts x {vectors.shape[1]}")


def _read(file: Path, text: str, label: str | None) -> tuple[list[str], list[str] | None]:
    """The texts, and their labels where these are asked for."""
    from keras_bert.tasks.readers.rows import lines
    from keras_bert.tasks.readers.table import read_table

    if file.suffix.lower() in TABLES:
        table = read_table(file, header=not text.isdecimal())
        labels = None if label is None else [str(value) for value in table.column(column(label))]
        return table.column(column(text)), labels
    if label is not None:
        raise typer.BadParameter(f"--label-column names a column of a table: {', '.join(TABLES)}.")
    found = standard_input() if str(file) == "-" else lines(file)
    return [line for _, line in found], None
