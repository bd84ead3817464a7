"""`keras-bert pretrain`: from examples to a BERT."""

import dataclasses
from typing import Annotated

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import command


@command("pretrain", example="keras-bert pretrain --data examples --size tiny --output run --recipe tiny-laptop")
def pretrain(
    context: typer.Context,
    data: Annotated[str, typer.Option("--data", help="A folder that keras-bert examples wrote.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Folder of the run, local or gs://.")],
    data_512: Annotated[
        str | None, typer.Option("--data-512", help="Longer examples, for the last 10 % of the steps.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", callback=options.known_model, help="Weights to start from: a name, a path or hf://org/name."
        ),
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="Provides the defaults of the options from --size to --seed.")
    ] = "paper-base",
    size: Annotated[
        str | None, typer.Option(help="tiny, mini, small, medium, base or large. --from has its own size.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps, over all phases.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, max=options.MOST, help="Rows per batch, over all devices.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Highest learning rate, reached at the end of the warm-up.")
    ] = None,
    ramp: Annotated[
        float | None,
        typer.Option(help="Share of the steps with smaller batches: a quarter of --batch-size, then half."),
    ] = None,
    warmup: Annotated[float | None, typer.Option(help="Share of the steps in which the learning rate rises.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Dropout rate. A short run learns faster with 0.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adamw or lamb.")] = None,
    accumulate: Annotated[
        int | None,
        typer.Option(
            min=1, max=options.MOST, help="Split a device's rows into this many smaller batches, to save memory."
        ),
    ] = None,
    dtype: Annotated[options.TrainingDtype | None, typer.Option(help="Type to train in.")] = None,
    remat: Annotated[
        bool | None, typer.Option(help="Compute attention maps again in the backward pass: less memory, more time.")
    ] = None,
    seed: Annotated[
        int | None, options.seed("the first weights, the order of the rows, the masks and the dropout")
    ] = None,
    strategy: options.Strategy = "auto",
    validation: Annotated[
        str | None, typer.Option(help="Held-out examples, whose loss and accuracy are measured during training.")
    ] = None,
    damaged: options.Damaged = "stop",
    validate_every: Annotated[int, typer.Option(min=1, help="Steps from one validation to the next.")] = 1000,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps from one checkpoint to the next.")] = 1000,
    keep: Annotated[int, typer.Option(min=1, help="Number of latest checkpoints to keep.")] = 5,
    keep_every_hours: Annotated[
        float | None, typer.Option(min=0, help="Also keep one older checkpoint for every so many hours.")
    ] = None,
    steps_per_loop: Annotated[int, typer.Option(min=1, help="Steps from one log line to the next.")] = 10,
) -> None:
    """Pretrain a BERT. If it is interrupted, the same command resumes from the last checkpoint.

    The recipes: paper-base, paper-large, tiny-laptop, base-one-gpu, base-one-gpu-24h, base-v5e-1, base-v5e-8,
    large-pod. Examples for base-one-gpu-24h are written by keras-bert examples --recipe base-one-gpu-24h.
    """
    if source is not None:
        options.refuse(context, ["size"], "is for random weights. Leave it out: --from has its own size.")
    if validation is None:
        options.refuse(context, ["validate_every"], "is for --validation. Add it, or leave --validate-every out.")
    from keras_bert.pretraining.run.pretrain import pretrain
    from keras_bert.pretraining.run.pretrain_recipe import Recipe, find_recipe

    changes = options.given(options.fields_of(Recipe, context.params))
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
