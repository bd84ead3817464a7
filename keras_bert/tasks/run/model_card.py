"""What stands beside a finished model: a picture of its training, and a card in Markdown."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.tasks.run.kinds import KINDS
from keras_bert.version import __version__

if TYPE_CHECKING:
    from keras_bert.tasks.run.finetune import Settings

USAGE = {  # by kind of task: the class, and a line that asks it
    "classify": ("TextClassifier", 'task.classify("a text")'),
    "regress": ("TextRegressor", 'task.score("a text")'),
    "tag": ("TokenTagger", 'task.tag("a text")'),
    "answer": ("QuestionAnswerer", 'task.answer("a question", "a context")'),
    "choose": ("MultipleChoice", 'task.choose("a prompt", ["a choice", "another"])'),
}

NAMES = {  # of settings that are not their own
    "seq_length": "sequence length",
    "dtype": "precision",
    "lora": "LoRA rank",
    "freeze": "frozen",
    "text": "text column",
    "label": "label column",
    "choices": "choice columns",
    "skip_empty": "empty texts left out",
    "header": "header row",
}


def write_curve(path: Path, metrics: dict[str, Any]) -> None:
    """Loss and score by epoch, as a PNG."""
    from keras_bert.pictures.curves import draw_curves

    history, best = metrics["epochs"], metrics["chosen_by"]
    epochs = [epoch["epoch"] for epoch in history]
    losses = {
        "training": (epochs, [epoch["loss"] for epoch in history]),
        "validation": (epochs, [epoch["val_loss"] for epoch in history]),
    }
    scores = {"validation": (epochs, [epoch["scores"][best] for epoch in history])}
    draw_curves({"loss": losses, best: scores}, "epoch", kept=metrics["best_epoch"]).savefig(path)


def write_card(path: Path, settings: "Settings", metrics: dict[str, Any]) -> None:
    """The card: what the model does, how well, how it was trained, how to ask it."""
    task, line = USAGE[settings.kind]
    if settings.kind in ("classify", "regress") and len(settings.reading.text) == 2:
        line = line.replace('"a text"', '("a text", "another")')
    rows = [(name, f"`{Path(getattr(settings, name)).name}`", f"{count:,}") for name, count in metrics["rows"].items()]
    path.write_text(
        f"""# {task} on {Path(settings.train).name}

A `keras_bert.{task}`, fine-tuned from `{settings.model}` with keras3-bert {__version__}.

## How well it does

Epoch {metrics["best_epoch"]} of {len(metrics["epochs"])} is kept, the best by {metrics["chosen_by"]} on the validation
file. Examples that took no part in this choice may score lower.

{_table(("score", "value"), [(name, f"{value:.4f}") for name, value in metrics["valid"].items()])}

![training](curve.png)
{_grid(metrics)}
## How it was trained

{_table(("file", "name", "rows"), rows)}

{_table(("setting", "value"), _settings(settings))}

AdamW with weight decay 0.01, warm-up over 10 % of the steps and linear decay to 0, gradients clipped to norm 1.

## How to ask it

```python
import keras
import keras_bert

task = keras.models.load_model("model.keras")
{line}
```

    keras-bert predict FOLDER FILE
    keras-bert evaluate FOLDER --data FILE

## What to know

It says what its training rows taught it, their errors and slants included. The licences of the weights that it began
from and of its data hold for it too; they are not recorded here.
""",
        encoding="utf-8",
    )


def _settings(settings: "Settings") -> list[tuple[str, str]]:
    """What was set, in words; what was not, such as LoRA or a separator, is left out."""
    values = {**dataclasses.asdict(settings), **dataclasses.asdict(settings.reading)}
    values["seq_length"] = settings.seq_length or KINDS[settings.kind].seq_length
    if settings.freeze is not None:
        values["freeze"] = "the whole encoder" if settings.freeze < 0 else f"embeddings and {settings.freeze} blocks"
    unasked = {**dict.fromkeys(("tag", "answer"), ("text", "label", "scale", "header")), "regress": ()}
    left_out = ("kind", "train", "valid", "reading", *unasked.get(settings.kind, ("scale",)))
    shown = {name: value for name, value in values.items() if name not in left_out}
    return [(NAMES.get(name, name.replace("_", " ")), _said(value)) for name, value in shown.items() if _is_set(value)]


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and value != ()


def _said(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_said, value))
    if value is True:
        return "yes"
    return f"{value:g}" if isinstance(value, float) else f"`{value}`" if isinstance(value, str) else str(value)


def _grid(metrics: dict[str, Any]) -> str:
    """Every run of a grid, the best first."""
    if "grid" not in metrics:
        return ""
    runs = sorted(metrics["grid"], key=lambda run: -run["score"])
    rows = [(run["batch_size"], f"{run['learning_rate']:g}", run["epochs"], f"{run['score']:.4f}") for run in runs]
    return f"\n## The grid\n\n{_table(('batch size', 'learning rate', 'epochs', metrics['chosen_by']), rows)}\n"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
