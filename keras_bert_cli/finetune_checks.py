"""What `keras-bert finetune` checks before Keras is imported: options that no run can have."""

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import typer

from keras_bert_cli import options
from keras_bert_cli.finetune_tasks import OF_SOME, TASKS, known_command
from keras_bert_cli.without_the_package import without_the_package


def class_weights(given: list[str]) -> Any:
    """What --class-weight says: "balanced", or the weight of each label."""
    if not given or given == ["balanced"]:
        return given[0] if given else None
    if "balanced" in given:
        raise typer.BadParameter("'balanced' already weighs all labels. Give only it, or the weight of each label.")
    weights = _numbers(given, "'balanced', or LABEL=W as in spam=3")
    for label, weight in weights.items():
        if not 0 <= weight < math.inf:  # refuses NaN too
            raise typer.BadParameter(
                f"The weight of {label!r} must be finite, and not below 0. Received: {label}={weight}"
            )
    return weights


def distillation(given: list[str]) -> dict[str, float] | None:
    """What --distill says: fields of `Distillation`."""
    numbers = _numbers(given, "NAME=NUMBER as in temperature=4")
    with without_the_package():
        from keras_bert.tasks.distillation import Distillation
    names = [field.name for field in dataclasses.fields(Distillation)]
    for name, number in numbers.items():
        if name not in names:
            raise typer.BadParameter(f"NAME must be one of {', '.join(names)}. Received: {name!r}")
        if not 0 <= number < math.inf:  # refuses NaN too
            raise typer.BadParameter(f"NUMBER must be finite, and not below 0. Received: {name}={number}")
    return numbers or None


def _numbers(given: list[str], form: str) -> dict[str, float]:
    """The numbers by name in words such as spam=3."""
    numbers: dict[str, float] = {}
    for word in given:
        name, _, number = word.rpartition("=")
        if name in numbers:
            raise typer.BadParameter(f"{name} is given twice. Give it once. Received: {word!r}")
        try:
            numbers[name] = float(number)
        except ValueError:
            raise typer.BadParameter(f"It must be {form}. Received: {word!r}") from None
    return numbers


def check_combination(context: typer.Context) -> None:
    """Refuse options that do not go together."""
    given = context.params
    is_search = given["grid"] or given["search"]
    if given["freeze"] and given["freeze_blocks"] is not None:
        raise typer.BadParameter("--freeze already freezes all blocks. Use either --freeze or --freeze-blocks.")
    if (given["valid"] is None) == (given["split"] is None):
        learns_texts = TASKS[context.command.name or ""].read_training
        raise typer.BadParameter(
            "Exactly one of --valid and --split is needed. Give a file (--valid) or a share (--split)."
            + (" Texts without labels cannot be evaluated, so for them give --valid." if learns_texts else "")
        )
    if given["steps"] is not None and (options.is_given(context, "epochs") or given["grid"]):
        other = "--grid" if given["grid"] else "--epochs"
        raise typer.BadParameter(f"--steps replaces the number of epochs. Leave out --steps or {other}.")
    if given["size"] is not None and options.is_given(context, "model"):
        raise typer.BadParameter("--size starts from random weights. Leave out --model, or --size and --vocab.")
    if (given["size"] is None) != (given["vocab"] is None):
        raise typer.BadParameter("--size and --vocab belong together. Give both for random weights, or neither.")
    if given["vocab"] is None and (given["cased"] or given["keep_accents"] or given["no_split_cjk"]):
        raise typer.BadParameter(
            "--cased, --keep-accents and --no-split-cjk are for a new model; a trained one has its own rules. Leave "
            "them out, or add --size and --vocab."
        )
    if given["seeds"] and is_search:
        raise typer.BadParameter(
            "--seeds cannot be combined with --grid or --search. In place of --seeds, add --search seed=0,1,2."
        )
    if given["average"] and not given["seeds"]:
        raise typer.BadParameter("--average needs --seeds. Add it, or leave out --average.")
    if given["prune"] and not is_search:
        raise typer.BadParameter("--prune needs --grid or --search. Add one, or leave out --prune.")


def check_settings(name: str, given: dict[str, Any]) -> tuple[dict[str, tuple[Any, ...]], list[tuple[Any, Any]]]:
    """Refuse settings that no run of the task can have.

    It returns what --grid and --search try, by option, and for each run what it tries and its `PlainSettings`. It is
    called `without_the_package` and `quiet`.
    """
    task = TASKS[name]
    if given["best_by"] not in (None, *task.scores):
        raise typer.BadParameter(
            f"--best-by must be one of {', '.join(task.scores)}. Received: --best-by {given['best_by']}"
        )
    from keras_bert.tasks.readers.reading import Reading
    from keras_bert.tasks.run.import_callback import check_callback
    from keras_bert.tasks.run.known_teacher import check_known_teacher
    from keras_bert.tasks.run.plain_settings import PlainSettings
    from keras_bert.tasks.run.searched import GRID, combinations, grid_of, seeded
    from keras_bert.text.vocabulary import Vocabulary
    from keras_bert.training.tf_config import check_workers

    tried = (GRID if given["grid"] else {}) | grid_of(given["search"])
    if unknown := [option for option in tried if option in OF_SOME and option not in task.options]:
        raise typer.BadParameter(f"{name} does not have the option {unknown[0]}. Leave it out of the search.")
    given = given | {"batch_size": given["batch_size"] or task.batch_size}
    reading = Reading(**options.fields_of(Reading, given))
    settings = PlainSettings(name, reading=reading, **options.fields_of(PlainSettings, given))
    several = seeded(settings, given["seeds"], given["average"]) if given["seeds"] else (settings, tried)
    runs = combinations(*several)
    for _, one in runs:
        check_known_teacher(one, known_command(one.teacher) if one.teacher else None)
        if config := one.known_config:
            one.check_model(config)
    for callback in settings.callbacks:
        check_callback(callback)
    if settings.strategy == "multi_worker" and os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
        check_workers()
    if settings.vocab:
        Vocabulary.from_file(settings.vocab)  # an error if the file is no vocabulary
    return tried, runs


def teacher_path(teacher: Path) -> str:
    """The path of a teacher, so that it is not taken for a released model of the same name."""
    with without_the_package():
        from keras_bert.weights import zoo

        return f"./{teacher}" if zoo.find(str(teacher)) else str(teacher)
