"""`keras-bert finetune`: train a task on files."""

from enum import StrEnum
from pathlib import Path

import typer

from keras_bert_cli import LAST_SEED, MODEL, MOST, STRATEGY, app


class TaskName(StrEnum):
    """The `command` of each task."""

    CLASSIFY = "classify"
    REGRESS = "regress"
    TAG = "tag"
    ANSWER = "answer"
    CHOOSE = "choose"


def column(value: str) -> str | int:
    """A column by name or, if digits, by number."""
    return int(value) if value.isdecimal() else value


FORMAT = typer.Option(
    None,
    help="tsv, csv, jsonl, label-text; for tag conll, conllu, klue-ner; for answer squad, korquad.",
    show_default="by the suffix",
)
TEXT = typer.Option(["text"], help="Column with the text, by name or number from 0; give two for pairs.")
LABEL = typer.Option("label", help="Column with the label, the score or the number of the right choice.")
CHOICE = typer.Option([], help="Column with a choice; give two or more.")
SEPARATOR = typer.Option(
    None, help="What stands between the labels of one text, where it may have several; in JSONL a list needs none."
)
SCALE = typer.Option(1.0, help="What scores are divided by: 5 where they go from 0 to 5.")
HEADER = typer.Option(None, help="Whether the first row names the columns.", show_default="if a column is named")
SKIP_EMPTY = typer.Option(False, "--skip-empty", help="Leave rows with an empty text out.")


@app.command(
    epilog="Example: keras-bert finetune classify --train nsmc-train.tsv --valid nsmc-test.tsv --text document "
    "--skip-empty --model hf://klue/bert-base --output nsmc"
)
def finetune(
    kind: TaskName = typer.Argument(
        ..., help="Label texts, score them, tag words, answer questions, choose among answers.", metavar="TASK"
    ),
    train: Path = typer.Option(..., help="The file to learn from.", exists=True, dir_okay=False),
    valid: Path = typer.Option(..., help="The file by which the best epoch is chosen.", exists=True, dir_okay=False),
    output: Path = typer.Option(..., "--output", "-o", help="A new or empty folder."),
    model: str = typer.Option("base", help=MODEL),
    format: str | None = FORMAT,
    text: list[str] = TEXT,
    label: str = LABEL,
    choice: list[str] = CHOICE,
    separator: str | None = SEPARATOR,
    scale: float = SCALE,
    header: bool | None = HEADER,
    skip_empty: bool = SKIP_EMPTY,
    epochs: int = typer.Option(3, min=1, help="Passes over the training file."),
    batch_size: int = typer.Option(32, min=1, max=MOST, help="Rows a step."),
    learning_rate: float = typer.Option(3e-5, "--learning-rate", "--lr", help="Of AdamW, after the warm-up."),
    seq_length: int | None = typer.Option(
        None, min=8, max=MOST, help="Pieces at most.", show_default="128; for answer 384"
    ),
    seed: int = typer.Option(0, min=0, max=LAST_SEED, help="Of the new head, the dropout and the order of the rows."),
    dtype: str = typer.Option("float32", help="float32, mixed_bfloat16 or mixed_float16."),
    cosine: bool = typer.Option(False, "--cosine", help="For regress: embed each text of a pair, and compare."),
    freeze: bool = typer.Option(False, "--freeze", help="Train the head alone."),
    freeze_blocks: int | None = typer.Option(None, min=0, help="Freeze the embeddings and this many encoder blocks."),
    lora: int | None = typer.Option(None, min=1, max=MOST, help="Train low-rank changes of this rank, and the head."),
    strategy: str = typer.Option("one", help=STRATEGY),
    grid: bool = typer.Option(False, "--grid", help="Try batch 16 and 32, rate 5e-5, 3e-5, 2e-5, epochs 2, 3, 4."),
) -> None:
    """Train a task on files; interrupted, the same command goes on from its last epoch."""
    from keras_bert.tasks.readers import Reading
    from keras_bert.tasks.run.finetune import finetune as run
    from keras_bert.tasks.run.grid import finetune_grid
    from keras_bert.tasks.run.settings import FinetuneSettings

    if freeze and freeze_blocks is not None:
        raise typer.BadParameter("--freeze holds all blocks. Give it or --freeze-blocks.")
    settings = FinetuneSettings(
        kind=kind.value,
        train=str(train),
        valid=str(valid),
        model=model,
        reading=Reading(
            format=format,
            text=tuple(map(column, text)),
            label=column(label),
            choices=tuple(map(column, choice)),
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
