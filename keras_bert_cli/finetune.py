"""`keras-bert finetune`: train a task on files."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import command

TaskName = Literal["classify", "regress", "tag", "answer", "choose"]  # the `command` of each task


def class_weights(given: list[str]) -> Any:
    """What --class-weight says: "balanced", or the weight of each label."""
    if not given or given == ["balanced"]:
        return given[0] if given else None
    weights = {}
    for word in given:
        label, _, weight = word.rpartition("=")
        try:
            weights[label] = float(weight)
        except ValueError:
            raise typer.BadParameter(f"It must be balanced, or LABEL=W as in spam=3. Received: {word!r}") from None
    return weights


@command(
    "finetune",
    example="keras-bert finetune classify --train nsmc-train.tsv --valid nsmc-test.tsv --text document "
    "--skip-empty --model hf://klue/bert-base --output nsmc",
)
def finetune(
    context: typer.Context,
    kind: Annotated[
        TaskName,
        typer.Argument(
            help="classify texts, regress (score texts), tag words, answer questions, or choose among answers.",
            metavar="TASK",
        ),
    ],
    train: Annotated[Path, typer.Option(help="File of rows to learn from.", exists=True, dir_okay=False)],
    valid: Annotated[Path, typer.Option(help="File of rows that picks the best epoch.", exists=True, dir_okay=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new or empty folder.")],
    model: options.Model = "base",
    format: options.Format = None,
    text: options.Text = ["text"],  # noqa: B006 - Typer copies it
    label: options.Label = "label",
    choices: options.Choices = [],  # noqa: B006
    separator: options.Separator = None,
    scale: Annotated[
        float, typer.Option(help="Divide each score by this number, such as 5 if the scores are from 0 to 5.")
    ] = 1.0,
    header: options.Header = None,
    skip_empty: Annotated[bool, typer.Option("--skip-empty", help="Drop rows with an empty text.")] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training file.")] = 3,
    batch_size: options.BatchSize = 32,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", "--lr", help="Learning rate of AdamW after the warm-up.")
    ] = 3e-5,
    seq_length: Annotated[
        int | None,
        typer.Option(min=8, max=options.MOST, help="Maximum number of pieces.", show_default="128; for answer 384"),
    ] = None,
    seed: Annotated[int, options.seed("the new head, the dropout and the order of the rows")] = 0,
    dtype: Annotated[str, options.TRAINING_DTYPE] = "float32",
    cosine: Annotated[
        bool, typer.Option("--cosine", help="For regress: score a pair by the cosine of its texts' vectors.")
    ] = False,
    freeze: Annotated[bool, typer.Option("--freeze", help="Train only the head.")] = False,
    freeze_blocks: Annotated[
        int | None, typer.Option(min=0, help="Freeze the embeddings and this many encoder blocks.")
    ] = None,
    lora: Annotated[
        int | None,
        typer.Option(min=1, max=options.MOST, help="Train the head and low-rank updates (LoRA) of this rank."),
    ] = None,
    layer_decay: Annotated[
        float, typer.Option(min=0, max=1, help="Multiply the learning rate by this from each block to the one below.")
    ] = 1.0,
    ema: Annotated[
        float, typer.Option(min=0, max=1, help="Momentum of a moving average of the weights, such as 0.99, to keep.")
    ] = 0.0,
    label_smoothing: Annotated[
        float, typer.Option(min=0, max=1, help="Spread this share of each label evenly over all labels.")
    ] = 0.0,
    accumulate: Annotated[int, typer.Option(min=1, max=options.MOST, help="Batches that make one step together.")] = 1,
    class_weight: Annotated[
        list[str],
        typer.Option(
            callback=class_weights,
            metavar="balanced|LABEL=W",
            help="Give all labels the same total weight, or a label the weight W. Repeat it for more labels.",
        ),
    ] = [],  # noqa: B006
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many epochs that are no better than the best.")
    ] = None,
    strategy: options.Strategy = "one",
    seeds: Annotated[
        int | None, typer.Option(min=2, help="Train with this many seeds, report the spread, and keep the best.")
    ] = None,
    average: Annotated[bool, typer.Option("--average", help="With --seeds: keep the average of the weights.")] = False,
    grid: Annotated[
        bool,
        typer.Option(
            "--grid", help="Try batch sizes 16 and 32, learning rates 5e-5, 3e-5 and 2e-5, and 2, 3 and 4 epochs."
        ),
    ] = False,
    search: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE,VALUE",
            help="Try values of an option, such as learning_rate=2e-5,5e-5. Repeat it for all combinations.",
        ),
    ] = [],  # noqa: B006
    prune: Annotated[
        bool, typer.Option("--prune", help="With --grid or --search: end runs that are worse than most.")
    ] = False,
    callbacks: Annotated[
        list[str],
        typer.Option(
            "--callback",
            metavar="MODULE:NAME",
            help="A Keras callback by its import path. MODULE:NAME={...} has its arguments in JSON.",
        ),
    ] = [],  # noqa: B006
) -> None:
    """Train a task on files. If it is interrupted, the same command resumes after the last finished epoch."""
    from keras_bert.tasks.readers import Reading
    from keras_bert.tasks.run.finetune import finetune as run
    from keras_bert.tasks.run.grid import GRID, finetune_grid, grid_of
    from keras_bert.tasks.run.seeds import finetune_seeds
    from keras_bert.tasks.run.settings import FinetuneSettings

    if freeze and freeze_blocks is not None:
        raise typer.BadParameter("--freeze already freezes all blocks. Use either --freeze or --freeze-blocks.")
    if seeds and (grid or search):
        raise typer.BadParameter("--seeds trains with one setting. Use --search seed=0,1,2 to try several of both.")
    if (average and not seeds) or (prune and not (grid or search)):
        raise typer.BadParameter(
            "--average or --prune was given by itself. Use --average with --seeds, and --prune with --grid or --search."
        )
    given = context.params | {"train": str(train), "valid": str(valid), "freeze": -1 if freeze else freeze_blocks}
    given["reading"] = Reading(**options.fields_of(Reading, given))
    settings = FinetuneSettings(**options.fields_of(FinetuneSettings, given))
    if grid or search:
        metrics = finetune_grid(settings, output, (GRID if grid else {}) | grid_of(search), prune=prune)
    elif seeds:
        metrics = finetune_seeds(settings, output, seeds, average=average)
    else:
        metrics = run(settings, output)
    for name, value in metrics["valid"].items():
        typer.echo(f"{name}\t{value:.4f}")
    for name, (mean, spread) in metrics.get("spread", {}).items():
        typer.echo(f"{name} of {seeds} seeds\t{mean:.4f} +- {spread:.4f}")
    kept = f"epoch {metrics['best_epoch']}, the best by {metrics['chosen_by']}"
    typer.echo(f"{output}: {'the average of the weights' if average else kept}")
