"""`keras-bert finetune`: train a task on files."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli.contents import command
from keras_bert_cli.options import (
    MOST,
    TRAINING_DTYPE,
    BatchSize,
    Choice,
    Format,
    Header,
    Label,
    Model,
    Separator,
    Strategy,
    Text,
    column,
    columns,
    seed,
)


class TaskName(StrEnum):
    """The `command` of each task."""

    CLASSIFY = "classify"
    REGRESS = "regress"
    TAG = "tag"
    ANSWER = "answer"
    CHOOSE = "choose"


@command(
    "finetune",
    example="keras-bert finetune classify --train nsmc-train.tsv --valid nsmc-test.tsv --text document "
    "--skip-empty --model hf://klue/bert-base --output nsmc",
)
def finetune(
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
    model: Model = "base",
    format: Format = None,
    text: Text = ["text"],  # noqa: B006 - Typer copies it
    label: Label = "label",
    choice: Choice = [],  # noqa: B006
    separator: Separator = None,
    scale: Annotated[
        float, typer.Option(help="Divide each score by this number, such as 5 if the scores are from 0 to 5.")
    ] = 1.0,
    header: Header = None,
    skip_empty: Annotated[bool, typer.Option("--skip-empty", help="Drop rows with an empty text.")] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training file.")] = 3,
    batch_size: BatchSize = 32,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", "--lr", help="Learning rate of AdamW after the warm-up.")
    ] = 3e-5,
    seq_length: Annotated[
        int | None, typer.Option(min=8, max=MOST, help="Maximum number of pieces.", show_default="128; for answer 384")
    ] = None,
    seed: Annotated[int, seed("the new head, the dropout and the order of the rows")] = 0,
    dtype: Annotated[str, TRAINING_DTYPE] = "float32",
    cosine: Annotated[
        bool, typer.Option("--cosine", help="For regress: score a pair by the cosine of its texts' vectors.")
    ] = False,
    freeze: Annotated[bool, typer.Option("--freeze", help="Train only the head.")] = False,
    freeze_blocks: Annotated[
        int | None, typer.Option(min=0, help="Freeze the embeddings and this many encoder blocks.")
    ] = None,
    lora: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Train the head and low-rank updates (LoRA) of this rank.")
    ] = None,
    strategy: Strategy = "one",
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
    settings = FinetuneSettings(
        kind=kind.value,
        train=str(train),
        valid=str(valid),
        model=model,
        reading=Reading(
            format=format,
            text=columns(text),
            label=column(label),
            choices=columns(choice),
            separator=separator,
            scale=scale,
            header=header,
            skip_empty=skip_empty,
        ),
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seq_length=seq_length,
        seed=seed,
        dtype=dtype,
        freeze=-1 if freeze else freeze_blocks,
        lora=lora,
        strategy=strategy,
        cosine=cosine,
    )
    metrics = finetune_grid(settings, output) if grid else run(settings, output)
    for name, value in metrics["valid"].items():
        typer.echo(f"{name}\t{value:.4f}")
    typer.echo(f"{output}: epoch {metrics['best_epoch']}, the best by {metrics['chosen_by']}")
