"""The files that describe a finished model: a picture of its training, and a model card in Markdown."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from keras_bert.storage import new_file, write_text
from keras_bert.tasks.columns.other_columns import TEXTS
from keras_bert.tasks.finetune_recipe import OPTIONS
from keras_bert.tasks.readers import Reading
from keras_bert.tasks.run.run_folder import OUTCOME, outcome_of
from keras_bert.tasks.run.settings import FinetuneSettings
from keras_bert.version import __version__
from keras_bert.wording import one_line

NAMES = {  # of settings whose field has another name
    "seq_length": "sequence length",
    "dtype": "precision",
    "lora": "LoRA rank",
    "freeze": "frozen",
    "text": "text column",
    "number": "number columns",
    "category": "category columns",
    "label": "label column",
    "choices": "choice columns",
    "positive": "label of f1",
    "best_by": "best epoch by",
    "skip_empty": "empty texts dropped",
    "skip_bad": "unreadable rows dropped",
    "header": "header row",
    "ema": "momentum of averaged weights",
    "accumulate": "batches per step",
    "distill": "distillation",
    "layers": "encoder blocks",
    "stream": "training file read as a stream",
    "cache_batch": "texts or windows computed at a time",
    "temperature": "temperature of the loss",
    "symmetric": "symmetric loss",
}


def write_curve(path: Path, metrics: dict[str, Any]) -> None:
    """Loss and score by epoch, as a PNG."""
    from keras_bert.pictures.curves import draw_curves, only_a_picture

    history, best = metrics["epochs"], metrics["chosen_by"]
    epochs = [epoch["epoch"] for epoch in history]
    losses = {
        "training": (epochs, [epoch["loss"] for epoch in history]),
        "validation": (epochs, [epoch["val_loss"] for epoch in history]),
    }
    scores = {"validation": (epochs, [epoch["scores"][best] for epoch in history])}
    with only_a_picture(path), new_file(path) as temporary:
        figure = draw_curves({"loss": losses, best: scores}, "epoch", kept=metrics["best_epoch"])
        figure.savefig(temporary, format="png")


def write_card(path: Path, settings: FinetuneSettings, metrics: dict[str, Any]) -> None:
    """The card: what the model does, how well it does it, how it was trained, and how to use it."""
    task, line = settings.task.__name__, settings.task.usage
    if settings.reading.others:
        line = line.replace('"a text"', _row(settings.reading))
    elif len(settings.reading.text) == 2:
        line = line.replace('"a text"', '("a text", "another")')
    files = {"train": settings.train, "valid": settings.valid or settings.train}
    rows = [(name, f"`{Path(files[name]).name}`", f"{count:,}") for name, count in metrics["rows"].items()]
    held_out = "file" if settings.split is None else f"rows, a split of {settings.split:g} of the file"
    start = f"`{settings.model}`" if settings.size is None else f"random weights of the size {settings.size}"
    kept = metrics.get("calibration", metrics)
    note = "" if kept is metrics else " The scores are those after calibration."
    recipe = settings.recipe
    training = (
        f"AdamW with weight decay {recipe.weight_decay:g}, warm-up over {100 * recipe.warmup:g} % of the steps and "
        f"linear decay to 0, gradients clipped to norm {recipe.clipnorm:g}."
    )
    write_text(
        path,
        f"""# {task} on {Path(settings.train).name}

A `keras_bert.{task}`, fine-tuned from {start} with keras3-bert {__version__}.

## How well it does

This is {_origin(metrics)} on the validation
{held_out}. Examples that took no part in this choice may score lower.{note}

{_table(("score", "value"), [(name, f"{value:.4f}") for name, value in kept["valid"].items()])}
{_labels(kept)}
{_curve(path, metrics)}
{_calibration(metrics)}{_runs(metrics)}
## How it was trained

{_table(("file", "name", "rows"), rows)}

{_table(("setting", "value"), _settings(settings))}

{training}

## How to use it

```python
import keras
import keras_bert

task = keras.models.load_model("model.keras")
{line}
```

    keras-bert predict FOLDER FILE
    keras-bert evaluate FOLDER --data FILE

## What to know

The model repeats what it learned from its training rows, including their errors and biases. The licences of its
starting weights and of its data apply to it too; they are not recorded here.
""",
    )


def _row(reading: Reading) -> str:
    """A row to ask a task that has other columns."""
    texts = dict(zip(TEXTS, ("a text", "another")[: len(reading.text)], strict=False))
    others = {str(name): 1.0 for name in reading.number} | {str(name): "a name" for name in reading.category}
    return json.dumps(texts | others, ensure_ascii=False)


def _settings(settings: FinetuneSettings) -> list[tuple[str, str]]:
    """The settings of the run in words, without those that are not set or that the task does not use."""
    values = {**dataclasses.asdict(settings), **dataclasses.asdict(settings.reading)}
    values |= {"batch_size": settings.rows_per_batch, "seq_length": settings.length}
    if settings.freeze is not None:
        values["freeze"] = "the whole encoder" if settings.freeze < 0 else f"embeddings and {settings.freeze} blocks"
    unused = {field.name for field in dataclasses.fields(Reading)} - set(settings.task.reading_fields)
    unused |= set(OPTIONS) - set(settings.recipe.options())
    labelled_lines = settings.reading.format_of(settings.train) == "label-text" and not settings.reading.lines
    if labelled_lines and "label-text" in settings.task.formats:  # which have no columns to name
        unused |= {"text", "label", "header"}
    unused |= {"save_every"} if settings.steps is None else {"save_every", "epochs"}
    left_out = {"kind", "train", "valid", "reading", *unused, *(() if settings.size is None else ("model",))}
    shown = {name: value for name, value in values.items() if name not in left_out and _is_set(value)}
    return [(NAMES.get(name, name.replace("_", " ")), _as_text(value)) for name, value in shown.items()]


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and value != ()


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_as_text(one)}" for name, one in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(_as_text, value))
    if value is True:
        return "yes"
    return f"{value:g}" if isinstance(value, float) else f"`{value}`" if isinstance(value, str) else str(value)


def _calibration(metrics: dict[str, Any]) -> str:
    """What `--calibrate` set, and the scores before and after."""
    if "calibration" not in metrics:
        return ""
    found = metrics["calibration"]
    values = found["set"].get("thresholds", found["set"])
    heading = "threshold of the label" if "thresholds" in found["set"] else "setting"
    rows = [(name, f"{metrics['valid'][name]:.4f}", f"{value:.4f}") for name, value in found["valid"].items()]
    return f"""
## Calibration

These were set on the validation rows after training, so other examples may score lower.

{_table((heading, "value"), [(name, f"{value:.4f}") for name, value in values.items()])}

{_table(("score", "before", "after"), rows)}
"""


def _labels(details: dict[str, Any]) -> str:
    """The scores of each label, if the task has labels."""
    if not details.get("labels"):
        return ""
    names = ("precision", "recall", "f1")
    rows = [
        (f"`{label}`", *(f"{found[name]:.4f}" for name in names), f"{found['support']:,}")
        for label, found in details["labels"].items()
    ]
    return f"\n{_table(('label', *names, details.get('labels_of', 'rows')), rows)}\n"


def _origin(metrics: dict[str, Any]) -> str:
    """Where the weights are from."""
    if "averaged" in metrics:
        return f"the average of the weights of {metrics['averaged']} runs with several seeds, scored"
    return f"epoch {metrics['best_epoch']} of {len(metrics['epochs'])}, the best by {metrics['chosen_by']}"


def _curve(card: Path, metrics: dict[str, Any]) -> str:
    """The picture of the training, unless it could not be drawn."""
    what = "training of the best run" if "averaged" in metrics else "training"
    return f"![{what}](curve.png)" if card.with_name("curve.png").exists() else ""


def _runs(metrics: dict[str, Any]) -> str:
    """The runs of a grid or of several seeds, best first and failed ones last."""
    title = next((name for name in ("grid", "seeds") if name in metrics), None)
    if title is None:
        return ""
    runs = sorted(metrics[title], key=lambda run: float("inf") if run["score"] is None else -run["score"])
    names = [name for name in runs[0] if name not in OUTCOME]
    scores = [outcome_of(run) for run in runs]
    if "averaged" not in metrics:
        scores[0] += " (kept)"
    rows = [(*(_as_text(run[name]) for name in names), score) for run, score in zip(runs, scores, strict=True)]
    head = *(NAMES.get(name, name.replace("_", " ")) for name in names), metrics["chosen_by"]
    return f"\n## The {title}\n\n{_table(head, rows)}\n"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(one_line(str(cell)).replace("|", "\\|") for cell in line) + " |" for line in lines
    )
