"""`keras-bert predict`: ask a finished task, a JSON object for each row."""

import json
from pathlib import Path
from typing import Any

import typer

from keras_bert_cli import MOST, app, standard_input
from keras_bert_cli.finetune import FORMAT, column


def given(**options: Any) -> dict[str, Any]:
    """The fields of `Reading` that were given; for the others, those of training hold."""
    return {name: value for name, value in options.items() if value not in (None, ())}


@app.command(epilog="Example: echo '다시 보고 싶은 영화' | keras-bert predict nsmc")
def predict(
    source: Path = typer.Argument(..., help="A finished folder, or a .keras file of a task."),
    file: Path = typer.Argument(
        Path("-"),
        dir_okay=False,
        allow_dash=True,
        help="A file as in training; - (standard input), or .txt if none was trained on: a row a line.",
    ),
    format: str | None = FORMAT,
    text: list[str] = typer.Option([], help="Column with the text; two for pairs.", show_default="as in training"),
    choice: list[str] = typer.Option([], help="Column with a choice.", show_default="as in training"),
    header: bool | None = typer.Option(
        None, help="Whether the first row names the columns.", show_default="as in training, or if a column is named"
    ),
    batch_size: int = typer.Option(32, min=1, max=MOST, help="Rows at a time."),
) -> None:
    """Ask a task: JSONL on standard output, in the order of the rows; the texts of a line are parted by tabs."""
    from keras_bert.tasks.readers.rows import lines
    from keras_bert.tasks.run.finished_task import FinishedTask

    columns = {"text": tuple(map(column, text)), "choices": tuple(map(column, choice))}
    finished = FinishedTask.load(source, **given(format=format, header=header, **columns))
    if str(file) == "-":
        answers = finished.predict_lines(standard_input(), batch_size=batch_size)
    elif file.suffix.lower() == ".txt" and format is None and not finished.labelled_lines:
        answers = finished.predict_lines(lines(file), batch_size=batch_size)
    else:
        answers = finished.predict(file, batch_size=batch_size)
    for answer in answers:
        typer.echo(json.dumps(answer, ensure_ascii=False))
