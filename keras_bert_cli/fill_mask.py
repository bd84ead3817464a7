"""`keras-bert fill-mask`: a pretrained model's guesses for each [MASK]."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.options import CacheDir, LocalOnly, Model

MASK = "[MASK]"


@command("fill-mask", example='keras-bert fill-mask "Paris is the [MASK] of France." --model base')
def fill_mask(
    texts: Annotated[list[str], typer.Argument(help="Texts with one or more [MASK] each.", metavar="TEXT...")],
    model: Model = "base",
    top_k: Annotated[int, typer.Option(min=1, help="Number of pieces to show for each mask.")] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON list with a list of guesses for each mask.")
    ] = False,
    cache_dir: CacheDir = None,
    local_only: LocalOnly = False,
) -> None:
    """Fill in each [MASK] with a pretrained model.

    Each line of output has the number of the mask, counted over all texts, the probability, the piece and the text.
    """
    for text in texts:
        if MASK not in text:
            raise ValueError(f"A text has no {MASK}. Write {MASK} in place of a word. Received: {text!r}")
    from keras_bert.pretraining.pretrainer import Pretrainer
    from keras_bert.wording import cell

    pretrainer = Pretrainer.load(model, nsp=False, cache_dir=cache_dir, local_only=local_only)
    masks = [mask for text in pretrainer.fill_mask(texts, top_k) for mask in text]
    if as_json:
        typer.echo(json.dumps([[asdict(filling) for filling in mask] for mask in masks], ensure_ascii=False))
        return
    for number, mask in enumerate(masks, 1):
        for filling in mask:
            typer.echo(f"{number}\t{filling.score:.4f}\t{filling.token}\t{cell(filling.text)}")
