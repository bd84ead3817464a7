"""`keras-bert evaluate`: how well pretrained weights or a finished task do on held-out data."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import command
from keras_bert_cli.first_look import look_at_file
from keras_bert_cli.sigterm import unwound_by_sigterm
from keras_bert_cli.without_the_package import without_the_package


@command("evaluate", example="keras-bert evaluate nsmc --data nsmc-test.tsv")
def evaluate(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            callback=options.known_model,
            help="The folder of a finetune run, a task's export, or weights: a name, a path, hf://org/name.",
        ),
    ],
    data: Annotated[
        str, typer.Option("--data", help="For a task, a file of rows; for weights, a folder from keras-bert examples.")
    ],
    format: options.TrainedFormat = None,
    text: options.TrainedText = [],  # noqa: B006 - Typer copies it
    label: options.TrainedLabel = None,
    choices: options.TrainedChoices = [],  # noqa: B006
    number: options.TrainedNumber = [],  # noqa: B006
    category: options.TrainedCategory = [],  # noqa: B006
    separator: options.TrainedSeparator = None,
    positive: options.TrainedPositive = None,
    scale: options.TrainedScale = None,
    header: options.TrainedHeader = None,
    delimiter: options.TrainedDelimiter = None,
    encoding: options.TrainedEncoding = None,
    skip_empty: options.TrainedSkipEmpty = None,
    skip_bad: options.TrainedSkipBad = None,
    batch_size: options.BatchSize = 32,
    strategy: options.Strategy = "one",
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Type to compute in: for a task float32, bfloat16 or int8; for weights float32, bfloat16, float16, "
            "mixed_bfloat16 or mixed_float16."
        ),
    ] = None,
    engine: options.Engine = None,
    seed: Annotated[int, options.seed("the masks")] = 0,
    damaged: options.Damaged = "stop",
    report: Annotated[
        Path | None,
        typer.Option(help="New folder for a page about the mistakes (index.html) and its numbers (report.json)."),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            help="With --report: the file of the training rows. The page lists those that --data has too.",
            show_default="that of the run, if it has not changed",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Evaluate a finished task on the rows of a file, or pretrained weights on masked words and next sentences.

    With --dtype int8, the scores in the type of the model are printed beside those in int8.

    --batch-size, --dtype and --json are for tasks and for weights. --strategy, --seed and --damaged are only for
    weights, all other options only for tasks.
    """
    if "://" not in data and not Path(data).exists():
        raise FileNotFoundError(f"The path of --data does not exist. Name a file or a folder. Received: {data!r}")
    if "://" not in data and not Path(data).is_file() and not Path(data).is_dir():
        raise ValueError(
            "The path of --data is a pipe or a device, but it must be read more than once. Write the rows to a file. "
            f"Received: {data!r}"
        )
    if train and not report:
        raise ValueError(
            f"--train is for the page of --report. Add --report, or leave out --train. Received: --train {train}"
        )
    if report and not Path(data).is_file():
        raise ValueError(f"--report is for a task and a file of rows. Name a file with --data. Received: --data {data}")
    if train and not train.is_file():
        raise FileNotFoundError(f"There is no file at the path of --train. Name a file of rows. Received: {train}")
    with without_the_package():
        from keras_bert.jsonl import plain
        from keras_bert.storage import check_new_folder
        from keras_bert.tasks.readers.reading import Reading
        from keras_bert.tasks.run.run_folder import MODEL

        if report:
            check_new_folder(report)
        of_reading = options.fields_of(Reading, context.params)
    if Path(data).is_file():
        options.refuse(
            context, ["strategy", "seed", "damaged"], f"is for a folder of examples. Received: the file {data}"
        )
        reading = options.given(of_reading)
        options.check_inference(engine, dtype)
        look_at_file(source, Path(data), reading)
        if train:
            look_at_file(source, train, reading, training=True)
        from keras_bert.tasks.run.finished_task import FinishedTask

        loaded = FinishedTask.load(Path(source), **reading)
        finished = dataclasses.replace(loaded, task=options.asked_by(loaded.task, engine, dtype))
        with unwound_by_sigterm():  # nothing half-written stays of the page
            scores, details = finished.report(Path(data), batch_size=batch_size, directory=report, train=train)
        own = loaded.task.dtype_policy.name
        beside = {own: loaded.evaluate(Path(data), batch_size=batch_size)} if dtype == "int8" else {}
        if as_json:
            typer.echo(json.dumps(plain(scores | details | beside), ensure_ascii=False))
        else:
            options.print_scores(scores, details, beside)
        return
    if (Path(source) / MODEL).is_file():
        raise IsADirectoryError(f"--data must be a file of rows, since {source} is a task. Received: the folder {data}")
    options.refuse(context, [*of_reading, "engine"], f"is for a file of rows. Received: the folder {data}")
    from keras_bert.pretraining.run.evaluation import evaluate

    found = evaluate(
        source, data, strategy=strategy, batch_size=batch_size, seed=seed, dtype=dtype or "float32", damaged=damaged
    )
    typer.echo(json.dumps(plain(dataclasses.asdict(found))) if as_json else str(found))
