"""What `--prune` saves in a search, and what it costs: SST-2, MiniLM, each search with it and without.

    python benchmarks/pruning.py                               three quarters of an hour: 1,000 rows, three seeds
    python benchmarks/pruning.py --limit 64 --seeds 1          some minutes, to try the script

Needs ../shared/data. `keras-bert finetune classify` tries all combinations of --search. The time is that of the whole
command. The validation file (dev) chooses among the runs; the test file chooses nothing. With --results FILE, each
search is stored, and the same command does not repeat it.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parent))

import finetuning
import finetuning_data
from masking import command

DATA = finetuning_data.DATA / "en"
SEARCH = ["learning_rate=1e-4,5e-5,2e-5,1e-5", "layer_decay=0.9,1"]  # a run is compared with those before it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=1000, help="train on only this many rows")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--search", nargs="+", default=SEARCH, metavar="NAME=VALUE,...")
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    asked = parser.parse_args()
    start = finetuning_data.start("sst2", None, "")
    found: dict[bool, list[list[float]]] = {False: [], True: []}
    print("                  seconds  epochs trained     dev    test  the chosen run")
    for seed in range(asked.seeds):
        for prune in found:
            run = {"limit": asked.limit, "epochs": asked.epochs, "search": asked.search, "seed": seed, "prune": prune}
            done = finetuning.stored(run, asked.results, partial(searched, asked, start, seed, prune))
            found[prune].append(done["numbers"])
            print(f"seed {seed} {line(prune, done['numbers'])}  {done['chosen']}", flush=True)
    for prune, seeds in found.items():
        print(f"mean   {line(prune, [statistics.mean(values) for values in zip(*seeds, strict=True)])}")


def line(prune: bool, numbers: list[float]) -> str:
    seconds, epochs, dev, test = numbers
    return f"{'--prune' if prune else 'all':10} {seconds:7.0f} {epochs:15.1f} {dev:7.2f} {test:7.2f}"


def searched(asked: argparse.Namespace, start: str, seed: int, prune: bool) -> dict[str, Any]:
    """How long a search takes, in seconds and in epochs, the accuracies of the chosen run, and its settings."""
    with tempfile.TemporaryDirectory() as folder:
        train, output = Path(folder) / "train.txt", Path(folder) / "run"
        with open(DATA / "sst2.train.txt", encoding="utf-8") as file:
            train.write_text("".join(islice(file, asked.limit)), encoding="utf-8")
        options = ["--search=" + one for one in asked.search] + ["--prune"] * prune
        files = ["--train", train, "--valid", DATA / "sst2.dev.txt", "--output", output]
        begin = time.perf_counter()
        command("finetune", "classify", *files, "--model", start, "--seed", seed, "--epochs", asked.epochs, *options)
        seconds = time.perf_counter() - begin
        metrics = json.loads((output / "metrics.json").read_text())
        test = json.loads(command("evaluate", output, "--data", DATA / "sst2.test.txt", "--json"))["accuracy"]
    names = [option.partition("=")[0] for option in asked.search]
    best = max((run for run in metrics["grid"] if run["score"] is not None), key=lambda run: run["score"])
    epochs = sum(run.get("pruned_after", asked.epochs) for run in metrics["grid"])
    chosen = ", ".join(f"{name}={best[name]}" for name in names)
    return {"numbers": [seconds, epochs, 100 * metrics["valid"]["accuracy"], 100 * test], "chosen": chosen}


if __name__ == "__main__":
    main()
