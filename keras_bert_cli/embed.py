"""`keras-bert embed`: vectors of texts, and a map of them."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import command
from keras_bert_cli.vectors_file import beside, write_vectors
from keras_bert_cli.without_the_package import without_the_package


@command("embed", example="keras-bert embed texts.txt --model base --output vectors.npy --plot map.png")
def embed(
    context: typer.Context,
    file: options.TextFile = Path("-"),
    model: options.Model = "base",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The vectors to write, .npy, one row per text. `search --vectors` reads them."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per text, with the text and its vector.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="A map of the texts to draw, .png, .svg or .pdf.")] = None,
    projector: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A new folder for vectors.tsv and metadata.tsv, which tensorboard --logdir DIR shows."
        ),
    ] = None,
    text: options.TextColumn = "text",
    label_column: Annotated[
        str | None,
        typer.Option(callback=options.column, help="Column of a table that colours the map and the projector."),
    ] = None,
    header: options.Header = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    layer: Annotated[
        list[int],
        typer.Option(help="An encoder block, counted from 0, or backwards from -1. Give it again for several blocks."),
    ] = [-1],  # noqa: B006 - Typer copies it
    combine: Annotated[
        Literal["concat", "sum", "mean"], typer.Option(help="How to combine several blocks.")
    ] = "concat",
    pooling: Annotated[
        Literal["mean", "cls", "max", "pooled"] | None,
        typer.Option(help="How to combine the pieces of a text.", show_default="the model's, else mean"),
    ] = None,
    normalize: Annotated[
        bool | None, typer.Option(help="Scale vectors to length 1.", show_default="the model's, else no")
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(min=3, max=options.MOST, help="Maximum number of pieces.", show_default="the model's, else all"),
    ] = None,
    engine: options.Engine = None,
    dtype: options.InferenceDtype = None,
    cache_dir: options.CacheDir = None,
    local_only: options.LocalOnly = False,
) -> None:
    """Turn texts into vectors, in the order of the lines. An empty line is an empty text."""
    if output is None and plot is None and projector is None and not as_json:
        raise typer.BadParameter("No output was asked for. Use --output, --json, --plot or --projector.")
    if plot is None and projector is None:
        options.refuse(context, ["label_column"], "is for --plot and --projector. Add one of them, or leave it out.")
    if len(layer) < 2:
        options.refuse(context, ["combine"], "is for several blocks. Give --layer for each of them, or leave it out.")
    options.check_inference(engine, dtype)
    if pooling == "pooled" and options.is_given(context, "layer"):
        _check_last(layer, model)
    options.check_input(file)
    with without_the_package():
        from keras_bert.storage import check_new_folder

        options.check_new_file(output, "--output", (".npy",), [file])
        options.check_new_file(output and beside(output), "--output", inputs=[file])
        options.check_new_file(plot, "--plot", inputs=[file])
        if projector is not None:
            check_new_folder(projector)
        texts, labels = texts_of_file(
            context, file, text, label_column, header=header, delimiter=delimiter, encoding=encoding
        )

    from keras_bert.pictures.embeddings import FORMATS, check_map, draw_embeddings
    from keras_bert.pictures.projector import write_projector
    from keras_bert.storage import new_file
    from keras_bert.weights.load import load

    options.check_new_file(plot, "--plot", FORMATS)  # its ending, which only the package knows
    if plot is not None:
        check_map(len(texts), labels, plot)
    loaded = load(model, cache_dir=cache_dir, local_only=local_only)
    bert = options.asked_by(loaded, engine, dtype)
    pooled = options.given({"pooling": pooling, "normalize": normalize, "max_length": max_length})
    vectors = bert.embed(texts, layers=tuple(layer), combine=combine, **pooled)  # [n, d]
    if output is not None:
        write_vectors(output, vectors, texts, loaded)
    if plot is not None:
        with new_file(str(plot)) as temporary:
            draw_embeddings(vectors, texts, temporary, labels=labels, format=plot.suffix[1:].lower())
    if projector is not None:
        write_projector(projector, vectors, texts, labels)
    if as_json:
        for row, vector in zip(texts, vectors.tolist(), strict=True):
            typer.echo(json.dumps({"text": row, "vector": vector}, ensure_ascii=False))
    else:
        written = " and ".join(map(str, filter(None, (output, plot, projector))))
        typer.echo(f"{written}: {len(vectors)} texts x {vectors.shape[1]}")


def _check_last(layers: list[int], model: str) -> None:
    """Refuse blocks that the pooler does not read, as far as the number of blocks is known without the weights."""
    with without_the_package():
        from keras_bert.weights.known_config import known_config

        config = known_config(model)
    if config is not None and layers not in ([-1], [config.num_hidden_layers - 1]):
        raise typer.BadParameter(
            "--pooling pooled is the output of the pooler, which reads only the last block. Leave out --layer, or use "
            f"--pooling cls. Received: --layer {' --layer '.join(map(str, layers))}"
        )


def texts_of_file(
    context: typer.Context,
    file: Path,
    text: str | int,
    label: str | int | None = None,
    *,
    header: bool | None,
    delimiter: str | None,
    encoding: str,
) -> tuple[list[str], list[str] | None]:
    """The texts, and their labels if a column of labels was named."""
    from keras_bert.tasks.readers.columns import text_of
    from keras_bert.tasks.readers.delimited import DELIMITERS
    from keras_bert.tasks.readers.reading import Reading
    from keras_bert.tasks.readers.rows import lines
    from keras_bert.tasks.readers.table import SUFFIXES

    tables = {suffix: format for suffix, format in SUFFIXES.items() if format != "label-text"}
    format = tables.get(file.suffix.lower())
    if format is None:
        names = ["text", "label_column", "header", "delimiter"]
        options.refuse(context, names, f"needs a table ({', '.join(tables)}). Received: {file}")
        found = options.standard_input(encoding) if str(file) == "-" else lines(file, encoding)
        return [line for _, line in found], None
    if format not in DELIMITERS:
        options.refuse(context, ["header", "delimiter"], f"is for .tsv and .csv files. Leave it out. Received: {file}")
    table = Reading(text=(text,), label=label, header=header, delimiter=delimiter, encoding=encoding).table(file)
    texts = [text_of(value, text, table, row) for row, value in enumerate(table.column(text))]
    return texts, None if label is None else list(map(str, table.column(label)))
