"""`keras-bert predict`: the answers of a finished task, one JSON object per row."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import command
from keras_bert_cli.first_look import look_at_file, refuse_for_lines


@command("predict", example="echo '다시 보고 싶은 영화' | keras-bert predict nsmc")
def predict(
    source: Annotated[
        Path,
        typer.Argument(help="The folder of a finetune run, or the .keras file or the export of a task."),
    ],
    file: Annotated[
        Path,
        typer.Argument(
            dir_okay=False,
            allow_dash=True,
            help="A file like the training file, a .txt file with one row per line, or - for standard input.",
        ),
    ] = Path("-"),
    format: options.TrainedFormat = None,
    text: options.TrainedText = [],  # noqa: B006 - Typer copies it
    choices: options.TrainedChoices = [],  # noqa: B006
    number: options.TrainedNumber = [],  # noqa: B006
    category: options.TrainedCategory = [],  # noqa: B006
    header: options.TrainedHeader = None,
    delimiter: options.TrainedDelimiter = None,
    encoding: options.AnsweredEncoding = None,
    skip_empty: options.SkipEmpty = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Drop rows that cannot be read; their number is in the log.")
    ] = False,
    batch_size: options.BatchSize = 32,
    engine: options.Engine = None,
    dtype: options.InferenceDtype = None,
) -> None:
    """Print a task's answers as JSON Lines, in the order of the rows.

    In a .txt file and on standard input without --format, tabs separate the texts of a row: both texts of a pair, a
    question and its context, or a prompt and its choices. The numbers and then the categories of a row follow, if the
    task reads any. What is left of a line belongs to its last column, tabs too. A line is never split into a label
    and a text unless --format label-text is given. A row with an empty text is answered too, so that there is an
    answer for each row.
    """
    options.check_inference(engine, dtype)
    if not os.path.exists(source):
        raise FileNotFoundError(
            "There is no file or folder at the path of the task. Name a run of `keras-bert finetune`, or the .keras "
            "file or the export of a task. A model such as minilm has no task: train one with `finetune`. "
            f"Received: {str(source)!r}"
        )
    asked = format or delimiter
    if str(file) in ("-", "/dev/stdin"):  # a table is read from a file
        file = Path("/dev/stdin" if asked else "-")
    options.check_input(file)
    reading = {"format": format, "header": header, "delimiter": delimiter, "encoding": encoding}
    reading = options.given(reading | {"text": text, "choices": choices, "number": number, "category": category})
    reading |= {"skip_empty": skip_empty, "skip_bad": skip_bad}
    look_at_file(source, file, reading, labels=False)
    from keras_bert.tasks.run.finished_task import FinishedTask

    finished = FinishedTask.load(source, **reading)
    finished = dataclasses.replace(finished, task=options.asked_by(finished.task, engine, dtype))
    plain = str(file) == "-" or finished.reading.is_plain(file, asked)
    if plain:  # for a user's own task, whose file was not looked at
        refuse_for_lines(file, reading, of_run=finished.record is not None)
    if str(file) == "-":
        answers = finished.predict_lines(options.standard_input(encoding or "utf-8"), batch_size=batch_size)
    else:
        answers = finished.predict(file, batch_size=batch_size, plain=plain)
    for answer in answers:
        typer.echo(json.dumps(answer, ensure_ascii=False))
