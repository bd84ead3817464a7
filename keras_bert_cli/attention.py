"""`keras-bert attention`: what a model looks at, as a page for the browser."""

from pathlib import Path

import typer

from keras_bert_cli import CACHE_DIR, LOCAL_ONLY, MODEL, MOST, app, check_new_file


@app.command(epilog='Example: keras-bert attention "The cat sat, for it was tired." --model base --output cat.html')
def attention(
    text: str = typer.Argument(..., help="The text to look at."),
    pair: str | None = typer.Option(None, help="A second text, for a pair."),
    model: str = typer.Option("base", "--model", "-m", help=MODEL),
    output: Path = typer.Option(..., "--output", "-o", help="Where the page goes, .html."),
    seq_length: int | None = typer.Option(
        None, min=3, max=MOST, help="Pieces at most.", show_default="the model's positions"
    ),
    cache_dir: str | None = CACHE_DIR,
    local_only: bool = LOCAL_ONLY,
) -> None:
    """Write a page that shows what each token attends to, in every layer and head; it needs no network."""
    from keras_bert.inputs import check_length
    from keras_bert.pictures import attention_page
    from keras_bert.storage import write_text
    from keras_bert.weights.load import load

    check_new_file(output, "--output")
    bert = load(model, seq_length=seq_length or "longest", cache_dir=cache_dir, local_only=local_only)
    check_length(seq_length, bert.config.max_position_embeddings)
    name = Path(model).name if Path(model).exists() else model
    page = attention_page(bert, text, pair, model=name)
    write_text(str(output), page)
    typer.echo(f"{output}: {len(page.encode()) / 1e3:,.0f} kB")
