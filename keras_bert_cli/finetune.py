"""`keras-bert finetune`: train a task on files."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import command

TaskName = Literal["classify", "regress", "tag", "answer", "choose"]  # the `command` of each task


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
    long: Annotated[
        Literal["truncate", "head-tail", "windows"] | None,
        typer.Option(help="For classify and regress: how to read texts of more than --seq-length pieces."),
    ] = None,
    pool: Annotated[
        Literal["mean", "max", "attention"] | None, typer.Option(help="How --long windows pools their vectors.")
    ] = None,
    max_windows: Annotated[
        int | None,
        typer.Option(min=1, max=options.MOST, help="Windows of a text that training reads.", show_default="8"),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="For classify: at the end, set the temperature or the thresholds of labels on the validation file.",
        ),
    ] = False,
    abstain_below: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="For classify: give no label that is less likely than this.", show_default="0"),
    ] = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="Train only the head.")] = False,
    freeze_blocks: Annotated[
        int | None, typer.Option(min=0, help="Freeze the embeddings and this many encoder blocks.")
    ] = None,
    lora: Annotated[
        int | None,
        typer.Option(min=1, max=options.MOST, help="Train the head and low-rank updates (LoRA) of this rank."),
    ] = None,
    strategy: options.Strategy = "one",
    grid: Annotated[
        bool,
        typer.Option(
            "--grid", help="Try batch sizes 16 and 32, learning rates 5e-5, 3e-5 and 2e-5, and 2, 3 and 4 epochs."
        ),
    ] = False,
) -> None:
    """Train a task on files. If it is interrupted, the same command resumes after the last finished epoch."""
    from keras_bert.tasks.readers import Reading
    from keras_bert.tasks.run.finetune import finetune as run
    from keras_bert.tasks.run.grid import finetune_grid
    from keras_bert.tasks.run.settings import FinetuneSettings

    if freeze and freeze_blocks is not None:
        raise typer.BadParameter("--freeze already freezes all blocks. Use either --freeze or --freeze-blocks.")
    given = context.params | {"train": str(train), "valid": str(valid), "freeze": -1 if freeze else freeze_blocks}
    given["reading"] = Reading(**options.fields_of(Reading, given))
    settings = FinetuneSettings(**options.fields_of(FinetuneSettings, given))
    metrics = finetune_grid(settings, output) if grid else run(settings, output)
    for name, value in metrics["valid"].items():
        typer.echo(f"{name}\t{value:.4f}")
    for name, value in metrics.get("calibration", {}).get("set", {}).items():
        typer.echo(f"{name}\t{value}")
    typer.echo(f"{output}: epoch {metrics['best_epoch']}, the best by {metrics['chosen_by']}")
