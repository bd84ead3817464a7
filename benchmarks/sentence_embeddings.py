"""Sentence embeddings: STS-B after training on it, beside sentence-transformers, and KorSTS after KorNLI's entailments.

    python benchmarks/sentence_embeddings.py                     hours
    python benchmarks/sentence_embeddings.py --limit 64 --seeds 1    minutes, to see that everything runs

STS-B: MiniLM's weights, scored pairs, cosine loss; both trainers get the same batches of 32, learning rate, warm-up and
epochs. The score is Spearman's correlation on the dev set, the time is that of the training. KorSTS: a random BERT-mini
with a Korean vocabulary, trained on the entailments of KorNLI's dev and test set with in-batch negatives. Each training
runs in a process of its own. Needs ../shared/data, and sentence-transformers with datasets and accelerate for its part.
With --results FILE, each training is stored, and the same command does not repeat it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import finetuning
import finetuning_data
from finetuning_peers import BATCH, CLIP, DECAY, EPSILON, WARMUP

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as `keras-bert` does
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["stsb", "korsts"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, help="by default 2e-5, and 5e-4 from random weights")
    parser.add_argument("--limit", type=int, help="train on this many rows")
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for task in [arguments.only] if arguments.only else ["stsb", "korsts"]:
            start = finetuning_data.start(task, None, folder)
            rate = arguments.learning_rate or {"stsb": 2e-5, "korsts": 5e-4}[task]
            settings = {"epochs": arguments.epochs, "learning_rate": rate, "limit": arguments.limit}
            print(f"{task}, Spearman on its dev set: {settings}", flush=True)
            contestants = ("start", "ours", "theirs") if task == "stsb" else ("start", "ours")
            runs: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
            for seed in range(arguments.seeds):  # the trainers take turns, so that both meet slow minutes
                for name in contestants[seed > 0 :]:  # the start has no seed
                    run = {"task": task, "name": name, "seed": seed, **settings}
                    measure = partial(in_process, "sentence_embeddings", {**run, "start": start})
                    runs[name].append(finetuning.stored(run, arguments.results, measure))
                    print(f"    seed {seed} {name:8} {summary(runs[name][-1:])}", flush=True)
            for name in contestants:
                print(f"  {name:8} {summary(runs[name])}", flush=True)
            if task == "stsb" and not any("missing" in run for run in runs["theirs"]):
                ratios = [b["seconds"] / a["seconds"] for a, b in zip(runs["ours"], runs["theirs"], strict=True)]
                print(f"  seconds of theirs, divided by ours: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


def in_process(script: str, run: dict[str, Any]) -> dict[str, Any]:
    """What the `worker` of a script prints of a run in a new process, or why it is missing."""
    worker = [sys.executable, "-W", "ignore", "-c", f"import {script} as s; s.worker()", json.dumps(run)]
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "PYTHONPATH": os.path.dirname(__file__)}
    environment["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
    done = subprocess.run(worker, stdout=subprocess.PIPE, text=True, env=environment)
    output = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(output[-1]) if output else {"missing": "failed"}


def summary(runs: list[dict[str, Any]]) -> str:
    """The mean and the spread of the scores, and the median of the seconds."""
    if missing := [run["missing"] for run in runs if "missing" in run]:
        return f"left out: {missing[0]}"
    scores = [100 * run["score"] for run in runs]
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    return (
        f"{statistics.mean(scores):6.2f} +- {spread:4.2f}   {statistics.median(run['seconds'] for run in runs):6.0f} s"
    )


def worker() -> None:
    """Train and score as the argument says, and print the result as JSON."""
    run = json.loads(sys.argv[-1])
    train, dev = finetuning_data.read(run["task"], run["limit"])
    try:
        embed, seconds = (_theirs if run["name"] == "theirs" else _ours)(run, train)
    except ImportError as error:
        print(json.dumps({"missing": f"{error}. Run: pip install sentence-transformers datasets accelerate"}))
        return
    from keras_bert.tasks.metrics import number_scores

    first, second = (embed(column) for column in dev.x)
    score = number_scores(dev.y, (first * second).sum(-1))["spearman"]
    print(json.dumps({"score": score, "seconds": seconds}), flush=True)


def _ours(run: dict[str, Any], train: Any) -> tuple[Any, float]:
    import keras

    import keras_bert
    from keras_bert.tasks.finetune_recipe import FinetuneRecipe

    keras.utils.set_random_seed(run["seed"])
    task = keras_bert.SentenceEmbedder(keras_bert.load(run["start"]))
    x, y = (train.x, train.y) if run["task"] == "stsb" else (entailments(run["limit"]), None)
    began = time.perf_counter()
    if run["name"] == "ours":
        recipe = FinetuneRecipe(learning_rate=run["learning_rate"], epochs=run["epochs"], batch_size=BATCH)
        task.fit(x, y, recipe=recipe, seed=run["seed"], verbose=0)
    return task.embed, time.perf_counter() - began


def entailments(limit: int | None) -> tuple[list[str], list[str]]:
    """Premises and what they entail, of both KorNLI files."""
    parts = finetuning_data.DATASETS["kornli"].read()
    rows = [row for part in parts for row in zip(*part.x, part.y, strict=True) if row[2] == "entailment"]
    first, second, _ = zip(*rows[:limit], strict=True)
    return list(first), list(second)


def _theirs(run: dict[str, Any], train: Any) -> tuple[Any, float]:
    import accelerate  # noqa: F401 - the trainer imports it late
    import datasets
    import transformers
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    transformers.set_seed(run["seed"])
    model = SentenceTransformer(run["start"], device="cpu")
    model.max_seq_length = 128  # as ours
    first, second = train.x
    rows = datasets.Dataset.from_dict({"first": first, "second": second, "score": train.y})
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        arguments = SentenceTransformerTrainingArguments(
            folder,
            per_device_train_batch_size=BATCH,
            num_train_epochs=run["epochs"],
            learning_rate=run["learning_rate"],
            warmup_steps=int(WARMUP * run["epochs"] * -(-len(train.y) // BATCH)),
            weight_decay=DECAY,
            max_grad_norm=CLIP,
            adam_epsilon=EPSILON,
            use_cpu=True,
            seed=run["seed"],
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        SentenceTransformerTrainer(model, arguments, train_dataset=rows, loss=CosineSimilarityLoss(model)).train()
        seconds = time.perf_counter() - began
    return lambda texts: model.encode(texts, normalize_embeddings=True, show_progress_bar=False), seconds


if __name__ == "__main__":
    main()
