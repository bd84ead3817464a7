"""`keras-bert evaluate`: how good weights are on text that was held out."""

import dataclasses
import json

import typer

from keras_bert.cli import app


@app.command(epilog="Example: keras-bert evaluate run --data held-out")
def evaluate(
    source: str = typer.Argument(..., help="A name, a path of any format, or hf://org/name."),
    data: str = typer.Option(..., "--data", help="A directory of keras-bert examples."),
    batch_size: int = typer.Option(32, min=1),
    strategy: str = typer.Option("one", help="auto, tpu, tpu:NAME, multi_worker, mirrored or one."),
    dtype: str = typer.Option("float32", help="A Keras policy."),
    seed: int = typer.Option(0, help="Decides the masks."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object."),
) -> None:
    """Evaluate pretrained weights: accuracy and perplexity of masked words, accuracy of next sentences."""
    from keras_bert.pretraining.evaluation import evaluate

    found = evaluate(source, data, strategy=strategy, batch_size=batch_size, seed=seed, dtype=dtype)
    typer.echo(json.dumps(dataclasses.asdict(found)) if as_json else str(found))
