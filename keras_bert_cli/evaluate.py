"""`keras-bert evaluate`: how good weights, or a finished task, are on text that was held out."""

import dataclasses
import json
from pathlib import Path

import typer

from keras_bert_cli import LAST_SEED, MOST, STRATEGY, app
from keras_bert_cli.finetune import FORMAT, SEPARATOR, column
from keras_bert_cli.predict import given


@app.command(epilog="Example: keras-bert evaluate nsmc --data nsmc-test.tsv")
def evaluate(
    source: str = typer.Argument(
        ..., help="Pretrained weights (a name, a path, hf://org/name), or the folder of a finished task."
    ),
    data: str = typer.Option(
        ..., "--data", help="For weights a folder of keras-bert examples, for a task a file of rows."
    ),
    format: str | None = FORMAT,
    text: list[str] = typer.Option([], help="For a task: columns with the text.", show_default="as in training"),
    label: str | None = typer.Option(None, help="For a task: column with the label.", show_default="as in training"),
    choice: list[str] = typer.Option([], help="For a task: columns with choices.", show_default="as in training"),
    separator: str | None = SEPARATOR,
    header: bool | None = typer.Option(None, help="For a task: whether the first row names the columns."),
    skip_empty: bool | None = typer.Option(None, help="For a task: leave rows with an empty text out."),
    batch_size: int = typer.Option(32, min=1, max=MOST, help="Rows at a time."),
    strategy: str = typer.Option("one", help=f"For weights. {STRATEGY}"),
    dtype: str = typer.Option(
        "float32", help="For weights: float32, bfloat16, float16, or mixed_ and one of these two."
    ),
    seed: int = typer.Option(0, min=0, max=LAST_SEED, help="For weights: decides the masks."),
    damaged: str = typer.Option(
        "stop", help="For weights: at a shard that is cut off or damaged: stop, or skip the rest of it."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON object."),
) -> None:
    """Evaluate pretrained weights (masked words, next sentences), or a finished task on the rows of a file."""
    from keras_bert.storage import is_remote

    if not is_remote(data) and not Path(data).exists():
        raise FileNotFoundError(f"The data must be there. Name a file or a folder. Received: {data!r}")
    from keras_bert.tasks.run.finetune import MODEL

    if Path(data).is_file():
        from keras_bert.tasks.run.finished_task import FinishedTask

        columns = {"text": tuple(map(column, text)), "choices": tuple(map(column, choice))}
        options = {"format": format, "separator": separator, "header": header, "skip_empty": skip_empty}
        finished = FinishedTask.load(
            Path(source), **given(label=None if label is None else column(label), **columns, **options)
        )
        scores = finished.evaluate(Path(data), batch_size=batch_size)
        lines = "\n".join(f"{name}\t{value:.4f}" for name, value in scores.items())
        typer.echo(json.dumps(scores) if as_json else lines)
        return
    if (Path(source) / MODEL).is_file():
        raise IsADirectoryError(f"A finished task is scored on the rows of a file. Name one. Received: --data {data}")
    from keras_bert.pretraining.run.evaluation import evaluate

    found = evaluate(source, data, strategy=strategy, batch_size=batch_size, seed=seed, dtype=dtype, damaged=damaged)
    typer.echo(json.dumps(dataclasses.asdict(found)) if as_json else str(found))
