"""`keras-bert attention`: what each piece of a text attends to, as a page for the browser."""

from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.options import MOST, CacheDir, LocalOnly, Model, check_new_file
from keras_bert_cli.without_the_package import without_the_package


@command("attention", example='keras-bert attention "The cat sat, for it was tired." --model base --output cat.html')
def attention(
    text: Annotated[str, typer.Argument(help="The text.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write, .html.")],
    pair: Annotated[str | None, typer.Option(help="A second text, for a text pair.")] = None,
    model: Model = "base",
    seq_length: Annotated[
        int | None,
        typer.Option(min=3, max=MOST, help="Maximum number of pieces.", show_default="all that the model can read"),
    ] = None,
    cache_dir: CacheDir = None,
    local_only: LocalOnly = False,
) -> None:
    """Write a page that shows what each piece of a text attends to, in every layer and attention head.

    The page works offline.
    """
    with without_the_package():
        check_new_file(output, "--output", (".html",))
    from keras_bert.inputs import check_length
    from keras_bert.pictures import attention_page
    from keras_bert.storage import write_text
    from keras_bert.weights.load import load

    bert = load(model, seq_length=seq_length or "longest", cache_dir=cache_dir, local_only=local_only)
    check_length(seq_length, bert.config.max_position_embeddings)
    name = Path(model).name if Path(model).exists() else model
    page = attention_page(bert, text, pair, model=name)
    write_text(str(output), page)
    typer.echo(f"{output}: {len(page.encode()) / 1e3:,.0f} kB")
