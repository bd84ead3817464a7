"""A look at the rows of a run before Keras is imported, which takes many seconds: what the run itself would refuse."""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from keras_bert_cli.finetune_tasks import OTHER_OPTIONS, TASKS, TaskOptions, known_command
from keras_bert_cli.without_the_package import quiet, without_the_package


def first_look(runs: Sequence[Any], task: TaskOptions) -> None:
    """Raise the error of a file that has other rows or labels than the `PlainSettings` of some runs of a task ask for.

    The runs of a search read the same files. It is called `without_the_package` and `quiet`, as is check_settings.
    """
    settings = runs[0]
    settings.reading.check_format(settings.kind, task.formats)
    files = [path for path in (settings.train, settings.valid) if path is not None]
    for path in files:
        if not os.path.isfile(path):
            raise ValueError(
                f"{path} is a pipe or a device, but it must be read more than once. Write the rows to a file. "
                f"Received: {path}"
            )
    from keras_bert.tasks.readers.row_stream import check_stream

    if settings.stream:
        check_stream(settings.train, settings.reading)
    if any(os.path.getsize(path) > task.looked_at for path in files):
        return
    from keras_bert.tasks.columns.value_columns import mean_and_deviation
    from keras_bert.tasks.rows.labels import check_known, check_several, row_labels
    from keras_bert.tasks.run.split_rows import split_rows

    train = _training_reader(task)(settings.train, settings.reading)
    has_labels = "class_weight" in task.options  # its labels are known by name
    valid = None if settings.valid is None else _function(task.read)(settings.valid, settings.reading)
    settings.check_scale(*filter(None, (train, valid)))
    for one in runs if task.check else ():
        _function(task.check)(one, train, valid)
    if has_labels:
        learned = {label for _, label in row_labels(train)}
        if isinstance(train.y[0], str):
            check_several(learned, train)
        for one in runs:
            one.check_labels(learned, train)
        if "positive" in task.options:  # its scores depend on the labels
            settings.check_label_score(learned, train)
        if valid is not None:
            check_known(row_labels(valid), valid, learned)
    if settings.split is not None:
        train, _ = split_rows(train, settings.split, row_labels(train) if has_labels else ())
    if names := settings.reading.others:
        for name, column in zip(settings.reading.number, train.x[-len(names) :], strict=False):
            mean_and_deviation(str(name), column, train.path)
    for one in runs:
        if one.steps or not task.windows:
            one.recipe.updates(one.steps or one.epochs * -(-len(train) // one.batch_size))


def look_at_file(
    source: str | Path, file: Path, given: dict[str, Any], *, training: bool = False, labels: bool = True
) -> None:
    """Raise the error of a file that a finished task cannot read: that of a run, of a .keras file or of an export.

    given: the fields of `Reading` that differ from training. training: whether the file may be one to train on.
    labels: False for a file that is to be answered.
    """
    with without_the_package(), quiet():
        from keras_bert.tasks.run.plain_settings import PlainSettings
        from keras_bert.tasks.run.run_folder import MODEL, SETTINGS_FILE, folder_of, no_model, refuse_no_task
        from keras_bert.weights.source_names import may_be_model

        if not may_be_model(source):
            refuse_no_task(source)
        folder, command = folder_of(source), known_command(source) or ""
        settings_file = folder / SETTINGS_FILE
        of_run = settings_file.is_file()
        if command not in TASKS:  # it may be the user's own
            return
        if of_run and not (folder / MODEL).is_file():
            raise no_model(folder)
        learned = PlainSettings.from_json(settings_file).reading if of_run else None
        reading = _reading(command, learned, given)
        if "header" in given:
            refuse_header(reading, [file])
        asked = given.get("format") or given.get("delimiter")
        plain = not labels and (str(file) == "-" or reading.is_plain(file, asked))
        if plain:
            refuse_for_lines(file, given, of_run=of_run)
        if not file.is_file() or file.stat().st_size > TASKS[command].looked_at:
            return
        if training:
            _training_reader(TASKS[command])(file, reading)
        elif plain:
            _check_lines(command, file, reading, of_run=of_run)
        else:
            _check_rows(source, command, file, reading, labels=labels)


def _reading(command: str, learned: Any, given: dict[str, Any]) -> Any:
    """How a file is read; learned: the `Reading` of the training, which only a run keeps."""
    from keras_bert.tasks.readers.reading import Reading

    task = TASKS[command]
    if learned is None:  # which numbers and categories the task reads is known when it is loaded
        given = {name: value for name, value in given.items() if name not in OTHER_OPTIONS}
    one_form = learned is not None and not task.read_training  # of rows
    reading = (learned or Reading()).of_another_file(command, task.options, given, as_many_texts=one_form)
    reading.check_format(command, task.formats)
    return reading


def _check_lines(command: str, file: Path, reading: Any, *, of_run: bool) -> None:
    """Refuse lines of plain text that cannot be answered."""
    from keras_bert.tasks.readers.rows import lines, naming, tab_columns

    numbered = list(lines(file, reading.encoding))
    if of_run and "number" in TASKS[command].options:  # each line of the others is one text
        with naming(str(file)):
            tab_columns(numbered, len(reading.text) + len(reading.others))


def _check_rows(source: str | Path, command: str, file: Path, reading: Any, *, labels: bool) -> None:
    """Refuse rows that cannot be read, and labels that the task has not learned."""
    from keras_bert.tasks.metrics.classification import positive_label
    from keras_bert.tasks.rows.labels import check_known, row_labels
    from keras_bert.tasks.run.known_task import known_labels

    task = TASKS[command]
    rows = _function(task.read)(file, reading, labels=labels)
    known = known_labels(source)
    if labels and "class_weight" in task.options and known is not None:  # its labels are known by name
        check_known(row_labels(rows), rows, known)
        positive_label(known, reading.positive, several=isinstance(rows.y[0], list))


def refuse_header(reading: Any, files: Sequence[Path]) -> None:
    """Refuse --header and --no-header if none of the files can have a header."""
    if reading.delimiter is None and not {reading.format_of(file) for file in files} & {"tsv", "csv", None}:
        raise typer.BadParameter(
            "--header and --no-header are for tsv and csv files. Leave them out. "
            f"Received: {' and '.join(map(str, files))}"
        )


def refuse_for_lines(file: Path, given: dict[str, Any], *, of_run: bool) -> None:
    """Refuse options of tables for lines of plain text, which have no columns with names and are all answered.

    of_run: whether the source is a run, which knows how many texts a line has. For others, two --text mean two texts.
    """
    received = f"Received: {'standard input' if str(file) == '-' else file}"
    if given.get("skip_empty") or given.get("skip_bad"):
        raise ValueError(
            "--skip-empty and --skip-bad are for tables. Lines of plain text are all answered, also empty ones. Leave "
            f"them out, or name the file's --format. {received}"
        )
    unused = [name for name in ("header", "text", "choices", *OTHER_OPTIONS) if name in given]
    if not of_run and len(given.get("text", ())) > 1:
        unused.remove("text")
    if unused:
        options = " and ".join(f"--{name}".replace("choices", "choice") for name in unused)
        raise ValueError(
            f"Lines of plain text have no header and no named columns, so {options} cannot be used. Leave it out, or "
            f"name the format of a table, such as --format tsv. {received}"
        )


def _training_reader(task: TaskOptions) -> Any:
    return _function(task.read_training or task.read)


def _function(name: str) -> Any:
    """A function of `keras_bert/tasks`."""
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"keras_bert.tasks.{module}"), function)
