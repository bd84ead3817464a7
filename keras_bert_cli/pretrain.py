"""`keras-bert pretrain`: from examples to a BERT."""

import dataclasses
from typing import Any

import typer

from keras_bert_cli import LAST_SEED, MOST, STRATEGY, app

EXAMPLE = "Example: keras-bert pretrain --data examples --size tiny --output run --recipe tiny-laptop"


@app.command(epilog=EXAMPLE)
def pretrain(
    data: str = typer.Option(..., "--data", help="A directory of keras-bert examples."),
    output: str = typer.Option(..., "--output", "-o", help="The run's directory, local or gs://."),
    data_512: str | None = typer.Option(None, "--data-512", help="Longer examples, for the last 10 % of the steps."),
    source: str | None = typer.Option(None, "--from", help="Weights to go on from: a name, a path, hf://org/name."),
    recipe: str = typer.Option("paper-base", help="What holds for the options below that are not given."),
    size: str | None = typer.Option(None, help="tiny, mini, small, medium, base or large; with --from its own holds."),
    steps: int | None = typer.Option(None, min=1, help="Of all phases together."),
    batch_size: int | None = typer.Option(None, min=1, max=MOST, help="Of all devices together."),
    learning_rate: float | None = typer.Option(None, help="The highest, at the end of the warm-up."),
    warmup: float | None = typer.Option(None, help="The share of the steps over which the learning rate rises."),
    dropout: float | None = typer.Option(None, help="0 learns faster in a short run."),
    optimizer: str | None = typer.Option(None, help="adamw or lamb."),
    accumulate: int | None = typer.Option(
        None, min=1, max=MOST, help="In how many parts a device takes its rows of a batch: less memory."
    ),
    dtype: str | None = typer.Option(None, help="float32, mixed_bfloat16 or mixed_float16."),
    remat: bool | None = typer.Option(None, help="Compute attention maps twice: less memory, more time."),
    seed: int | None = typer.Option(
        None, min=0, max=LAST_SEED, help="Of the first weights, the order, the masks and the dropout."
    ),
    strategy: str = typer.Option("auto", help=STRATEGY),
    validation: str | None = typer.Option(None, help="Examples held out, for losses and accuracies on the way."),
    damaged: str = typer.Option("stop", help="At a shard that is cut off or damaged: stop, or skip the rest of it."),
    validate_every: int = typer.Option(1000, min=1, help="In steps."),
    checkpoint_every: int = typer.Option(1000, min=1, help="In steps."),
    keep: int = typer.Option(5, min=1, help="How many of the latest checkpoints stay."),
    keep_every_hours: float | None = typer.Option(None, min=0, help="Of the older ones, one in so many hours stays."),
    steps_per_loop: int = typer.Option(10, min=1, help="How many steps run before anything is told or saved."),
) -> None:
    """Pretrain a BERT. The same command goes on where a run was stopped or killed.

    The recipes: paper-base, paper-large, tiny-laptop, base-one-gpu, base-v5e-1, base-v5e-8, large-pod.
    """
    from keras_bert.pretraining.run.pretrain import pretrain
    from keras_bert.pretraining.run.pretrain_recipe import find_recipe

    given: dict[str, Any] = {
        "size": size,
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "warmup": warmup,
        "dropout": dropout,
        "optimizer": optimizer,
        "accumulate": accumulate,
        "dtype": dtype,
        "remat": remat,
        "seed": seed,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    model = pretrain(
        [data, data_512] if data_512 else data,
        output,
        recipe=dataclasses.replace(find_recipe(recipe), **changes),
        source=source,
        strategy=strategy,
        validation=validation,
        damaged=damaged,
        validate_every=validate_every,
        checkpoint_every=checkpoint_every,
        keep=keep,
        keep_every_hours=keep_every_hours,
        steps_per_loop=steps_per_loop,
    )
    typer.echo(f"{output}: {model.count_params():,} parameters")
