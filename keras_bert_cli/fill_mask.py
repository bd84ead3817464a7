"""`keras-bert fill-mask`: what may stand at each [MASK] of texts."""

import json
from dataclasses import asdict

import typer

from keras_bert_cli import CACHE_DIR, LOCAL_ONLY, MODEL, app


@app.command("fill-mask", epilog='Example: keras-bert fill-mask "Paris is the [MASK] of France." --model base')
def fill_mask(
    texts: list[str] = typer.Argument(..., help="Texts, each with one [MASK] or several.", metavar="TEXT..."),
    model: str = typer.Option("base", "--model", "-m", help=MODEL),
    top_k: int = typer.Option(5, min=1, help="How many pieces to show for each mask."),
    as_json: bool = typer.Option(False, "--json", help="One JSON list: for each mask its fillings."),
    cache_dir: str | None = CACHE_DIR,
    local_only: bool = LOCAL_ONLY,
) -> None:
    """Fill the masks of texts by a pretrained model; they are numbered through."""
    from keras_bert.pretraining.pretrainer import Pretrainer

    pretrainer = Pretrainer.load(model, nsp=False, cache_dir=cache_dir, local_only=local_only)
    masks = [mask for text in pretrainer.fill_mask(texts, top_k) for mask in text]
    if as_json:
        typer.echo(json.dumps([[asdict(filling) for filling in mask] for mask in masks], ensure_ascii=False))
        return
    for number, mask in enumerate(masks, 1):
        for filling in mask:
            typer.echo(f"{number}\t{filling.score:.4f}\t{filling.token}\t{filling.text}")
