"""`keras-bert finetune TASK`: train a task on files. Each task is a command with the options that it has."""

import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from keras_bert_cli import options
from keras_bert_cli.contents import group
from keras_bert_cli.finetune_checks import check_combination, check_settings, class_weights, distillation, teacher_path
from keras_bert_cli.finetune_tasks import TASKS, TaskCommand
from keras_bert_cli.first_look import first_look, refuse_header
from keras_bert_cli.sigterm import unwound_by_sigterm
from keras_bert_cli.without_the_package import quiet, without_the_package

logger = logging.getLogger("keras_bert")


def finetune(
    context: typer.Context,
    train: Annotated[Path, typer.Option(help="File of rows to learn from.", exists=True, dir_okay=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new or empty folder.")],
    valid: Annotated[
        Path | None, typer.Option(help="File of rows to choose the best epoch by.", exists=True, dir_okay=False)
    ] = None,
    split: Annotated[
        float | None, typer.Option(help="In place of --valid: the share of the training rows to hold out, such as 0.1.")
    ] = None,
    model: options.Model = "base",
    size: Annotated[
        str | None,
        typer.Option(help="In place of --model: random weights of size tiny, mini, small, medium, base or large."),
    ] = None,
    vocab: Annotated[
        Path | None, typer.Option(help="The vocabulary for --size, one piece per line.", exists=True, dir_okay=False)
    ] = None,
    cased: options.Cased = False,
    keep_accents: options.KeepAccents = False,
    no_split_cjk: options.NoSplitCjk = False,
    format: options.Format = None,
    text: options.Text = ["text"],  # noqa: B006 - Typer copies it
    label: options.Label = "label",
    choices: options.Choices = [],  # noqa: B006
    number: options.Number = [],  # noqa: B006
    category: options.Category = [],  # noqa: B006
    separator: options.Separator = None,
    positive: options.Positive = None,
    scale: options.Scale = 1.0,
    header: options.Header = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = "utf-8",
    skip_empty: options.SkipEmpty = False,
    skip_bad: options.SkipBad = False,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training file.")] = 3,
    steps: Annotated[
        int | None, typer.Option(min=1, max=options.MOST, help="In place of --epochs: the number of batches.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, max=options.MOST, help="Rows per batch.")] = None,
    learning_rate: Annotated[
        float, typer.Option("--learning-rate", "--lr", help="Learning rate of AdamW after the warm-up.")
    ] = 5e-5,
    seq_length: Annotated[int | None, typer.Option(min=8, max=options.MOST, help="Maximum number of pieces.")] = None,
    seed: Annotated[int, options.seed("the new head, the dropout and the order of the rows")] = 0,
    dtype: Annotated[options.TrainingDtype, typer.Option(help="Type to train in.")] = "float32",
    cosine: Annotated[bool, typer.Option("--cosine", help="Score a pair by the cosine of its texts' vectors.")] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line of the training file is a text without a label.")
    ] = False,
    loss: Annotated[
        Literal["ranking", "cosine", "cosent", "triplet"] | None,
        typer.Option(help="What is learned.", show_default="ranking; for pairs with scores cosine, for labels triplet"),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="With --loss ranking or cosent: cosines are divided by this number.", show_default="0.05"),
    ] = None,
    symmetric: Annotated[
        bool, typer.Option("--symmetric", help="With --loss ranking: also rank the queries for each positive.")
    ] = False,
    pooling: Annotated[
        Literal["mean", "cls", "max"] | None,
        typer.Option(
            help="How the vectors of pieces make the vector of a text.", show_default="the model's, or else mean"
        ),
    ] = None,
    cache_batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.MOST,
            help="Compute only so many texts (or windows) of a batch at a time, to save memory.",
        ),
    ] = None,
    long: Annotated[
        Literal["truncate", "head-tail", "windows"] | None,
        typer.Option(help="How to read texts of more than --seq-length pieces."),
    ] = None,
    pool: Annotated[
        Literal["mean", "max", "attention"] | None, typer.Option(help="How --long windows pools the windows' vectors.")
    ] = None,
    max_windows: Annotated[
        int | None,
        typer.Option(min=1, max=options.MOST, help="Most windows that training reads per text.", show_default="8"),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="At the end, set the temperature or the thresholds of labels on the validation rows."
        ),
    ] = False,
    abstain_below: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Give no label if the most likely one has a lower probability than this.",
            show_default="0",
        ),
    ] = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="Train only the head.")] = False,
    freeze_blocks: Annotated[
        int | None, typer.Option(min=0, help="Freeze the embeddings and this many of the lowest encoder blocks.")
    ] = None,
    lora: Annotated[
        int | None,
        typer.Option(min=1, max=options.MOST, help="Train the head and low-rank updates (LoRA) of this rank."),
    ] = None,
    teacher: Annotated[
        Path | None,
        typer.Option(
            help="Learn from the answers of a task trained before: the folder of a run, a .keras file or an export. "
            "Without --model, the student starts from the teacher's weights.",
            exists=True,
        ),
    ] = None,
    distill: Annotated[
        list[str],
        typer.Option(
            callback=distillation,
            metavar="NAME=NUMBER",
            help="With --teacher: NAME is temperature, or the part of the loss whose weight to set: targets, logits, "
            "hidden, attention or relations. Repeat it for more names.",
        ),
    ] = [],  # noqa: B006
    layers: Annotated[
        int | None, typer.Option(min=1, max=options.MOST, help="Keep this many blocks of the encoder, spread evenly.")
    ] = None,
    layer_decay: Annotated[
        float, typer.Option(min=0, max=1, help="Each block learns at this share of the rate of the block above it.")
    ] = 1.0,
    ema: Annotated[
        float, typer.Option(help="Keep a moving average of the weights with this momentum below 1, such as 0.99.")
    ] = 0.0,
    label_smoothing: Annotated[
        float, typer.Option(help="Spread this share of each label, such as 0.1, evenly over all labels.")
    ] = 0.0,
    accumulate: Annotated[
        int, typer.Option(min=1, max=options.MOST, help="The weights change once for so many batches.")
    ] = 1,
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
    best_by: Annotated[
        str | None,
        typer.Option(help="Score that decides which epoch is best, such as f1_macro.", show_default="the task's"),
    ] = None,
    strategy: options.Strategy = "one",
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Read rows of the training file when they are needed, instead of reading all into memory.",
            show_default="yes above 1 GB",
        ),
    ] = None,
    save_every: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.MOST,
            help="Save the state after so many steps, so that the run can resume within an epoch.",
            show_default="1000 with --stream",
        ),
    ] = None,
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
        bool,
        typer.Option(
            "--prune", help="With --grid or --search: end runs that are below the median of at least four earlier ones."
        ),
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
    check_combination(context)
    name = context.command.name or ""
    given = context.params | {"freeze": -1 if freeze else freeze_blocks}
    paths = {"train": train, "valid": valid, "vocab": vocab}
    given |= {option: path and str(path) for option, path in paths.items()}
    if teacher:
        given["teacher"] = teacher_path(teacher)
        if size is None and not options.is_given(context, "model"):
            given["model"] = given["teacher"]
    with without_the_package(), quiet():
        from keras_bert.storage import check_new_folder
        from keras_bert.tasks.run.run_folder import check_resumed

        tried, runs = check_settings(name, given)
        if header is not None:
            refuse_header(runs[0][1].reading, [file for file in (train, valid) if file is not None])
        check_resumed(check_new_folder(output), runs)
        first_look([settings for _, settings in runs], TASKS[name])

    from keras_bert.tasks.readers import Reading
    from keras_bert.tasks.run.finetune import finetune as run
    from keras_bert.tasks.run.grid import finetune_grid
    from keras_bert.tasks.run.seeds import finetune_seeds
    from keras_bert.tasks.run.settings import FinetuneSettings

    given["reading"] = Reading(**options.fields_of(Reading, given))
    settings = FinetuneSettings(kind=name, **options.fields_of(FinetuneSettings, given))
    for option in tried:
        if options.is_given(context, option) or (option == "freeze" and freeze_blocks is not None):
            logger.warning("%s=%s is not used, because the search tries other values.", option, given[option])
    with unwound_by_sigterm():
        if tried:
            metrics = finetune_grid(settings, output, tried, prune=prune)
        elif seeds:
            metrics = finetune_seeds(settings, output, seeds, average=average)
        else:
            metrics = run(settings, output)
    _print_result(metrics)
    if average:
        typer.echo(f"{output}: the average of the weights")
    else:
        typer.echo(f"{output}: epoch {metrics['best_epoch']}, the best by {metrics['chosen_by']}")


def _print_result(metrics: dict[str, Any]) -> None:
    """The scores, what calibration has set, the spread of several seeds, and the runs of a search."""
    shown = metrics.get("calibration", metrics)
    options.print_scores(shown["valid"], shown)
    for value_name, value in metrics.get("calibration", {}).get("set", {}).items():
        by_label = value.items() if isinstance(value, dict) else [("", value)]
        typer.echo(f"{value_name}\t{', '.join(f'{label} {one:.4f}'.strip() for label, one in by_label)}")
    scored = [one for one in metrics.get("seeds", ()) if one["score"] is not None]
    for score, (mean, spread) in metrics.get("spread", {}).items():
        typer.echo(f"{score} of {len(scored)} seeds\t{mean:.4f} +- {spread:.4f}")
    if runs := metrics.get("grid"):
        from keras_bert.tasks.run.run_folder import outcome_of, tried_in

        for one in runs:
            typer.echo(f"{tried_in(one)}\t{outcome_of(one)}")
        kept = max((one for one in runs if one["score"] is not None), key=lambda one: one["score"])
        typer.echo(f"The best of {len(runs)} run{'s' * (len(runs) > 1)}: {tried_in(kept)}")


_commands = group(
    "finetune",
    example=f"keras-bert finetune classify {TASKS['classify'].example}",
    help="Train a task on files. If it is interrupted, the same command resumes it.",
)
for _name, _task in TASKS.items():
    _example = f"Example: keras-bert finetune {_name} {_task.example}"
    _commands.command(_name, cls=TaskCommand, help=_task.help, epilog=_example)(finetune)
