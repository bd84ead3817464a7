"""`keras-bert evaluate`: how good weights, or a finished task, are on text that was held out."""

import dataclasses
import json
from pathlib import Path

import typer

from keras_bert.cli import app
from keras_bert.cli.finetune import FORMAT, SEPARATOR, column
from keras_bert.cli.predict import given


@app.command(epilog="Example: keras-bert evaluate run --data held-out")
def evaluate(
    source: str = typer.Argument(..., help="A name, a path of any format, hf://org/name, or a finished task."),
    data: str = typer.Option(..., "--data", help="A directory of keras-bert examples; for a task a file."),
    format: str | None = FORMAT,
    text: list[str] = typer.Option([], help="For a task: columns with the text.", show_default="as in training"),
    label: str | None = typer.Option(None, help="For a task: column with the label.", show_default="as in training"),
    choice: list[str] = typer.Option([], help="For a task: columns with choices.", show_default="as in training"),
    separator: str | None = SEPARATOR,
    header: bool | None = typer.Option(None, help="For a task: whether the first row names the columns."),
    skip_empty: bool | None = typer.Option(None, help="For a task: leave rows with an empty text out."),
    batch_size: int = typer.Option(32, min=1),
    strategy: str = typer.Option("one", help="auto, tpu, tpu:NAME, multi_worker, mirrored or one."),
    dtype: str = typer.Option("float32", help="A Keras policy."),
    seed: int = typer.Option(0, help="Decides the masks."),
    damaged: str = typer.Option("stop", help="At a shard that is cut off or damaged: stop, or skip the rest of it."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object."),
) -> None:
    """Evaluate pretrained weights (masked words, next sentences), or a finished task on the rows of a file."""
    if "://" not in data and not Path(data).exists():
        raise FileNotFoundError(f"The data must be there. Name a file or a folder. Received: {data!r}")
    if Path(data).is_file():
        from keras_bert.tasks.finished import Finished

        columns = {"text": tuple(map(column, text)), "choices": tuple(map(column, choice))}
        options = {"format": format, "separator": separator, "header": header, "skip_empty": skip_empty}
        finished = Finished.load(
            Path(source), **given(label=None if label is None else column(label), **columns, **options)
        )
        scores = finished.evaluate(Path(data), batch_size=batch_size)
        lines = "\n".join(f"{name}\t{value:.4f}" for name, value in scores.items())
        typer.echo(json.dumps(scores) if as_json else lines)
        return
    from keras_bert.pretraining.evaluation import evaluate

    found = evaluate(source, data, strategy=strategy, batch_size=batch_size, seed=seed, dtype=dtype, damaged=damaged)
    typer.echo(json.dumps(dataclasses.asdict(found)) if as_json else str(found))
