"""A student of three layers with its teacher and without: MiniLM, six layers, fine-tuned on SST-2.

    python benchmarks/distillation.py                                     all rows, three seeds
    python benchmarks/distillation.py --limit 1000 --epochs 2 --seeds 1   a few minutes, to try the script

Needs ../shared/data. For each seed, MiniLM is fine-tuned, and becomes the teacher. Then three students of --layers
layers are trained on the same rows, for the same number of epochs: one that starts from MiniLM's layers, one that
starts from the teacher's, and one that starts from the teacher's and also learns from its answers. Accuracy is that on
the test file. The speed is that of `classify` on the first texts of that file, in turn with the teacher. With
--results FILE, each seed is stored, and the same command does not repeat it.
"""

import argparse
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parent))

import finetuning

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "en"
TEACHER, PLAIN, FEWER, TAUGHT = "the teacher", "from MiniLM's layers", "from the teacher's layers", "with the teacher"
ROUNDS, TIMED = 5, 512  # of timing, and the texts in each
WEIGHTS = ["hidden=10", "attention=1"]  # beside the defaults of Distillation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--limit", type=int, help="train on only this many rows")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--distill", nargs="*", default=WEIGHTS, metavar="NAME=NUMBER", help="as in finetune")
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    arguments = parser.parse_args()
    settings = {name: value for name, value in vars(arguments).items() if name not in ("seeds", "results")}
    if not DATA.is_dir():
        sys.exit("../shared/data is missing. Put the shared data next to the project's folder.")
    from keras_bert.tasks.readers import read_labels

    train, test = (read_labels(DATA / f"sst2.{part}.txt", format="label-text") for part in ("train", "test"))
    train = train[: arguments.limit]

    def measure(seed: int) -> dict[str, Any]:
        tasks = trained(train, seed, arguments)
        scores = {
            name: 100 * task.evaluate(test.x, test.y, return_dict=True, verbose=0)["accuracy"]
            for name, task in tasks.items()
        }
        return {"scores": scores, "speed": speed(tasks[TEACHER], tasks[TAUGHT], test.x)}

    found: dict[str, list[float]] = {}
    ratios = []
    for seed in range(arguments.seeds):
        done = finetuning.stored({"seed": seed, **settings}, arguments.results, partial(measure, seed))
        for name, score in done["scores"].items():
            found.setdefault(name, []).append(score)
            print(f"seed {seed}  {name:26} {score:6.2f}", flush=True)
        ratios.append(done["speed"])
    print(table(found, statistics.median(ratios)), flush=True)


def trained(train: Any, seed: int, arguments: Any) -> dict[str, Any]:
    """The teacher, and the three students."""
    import keras

    import keras_bert

    recipe = keras_bert.FinetuneRecipe(arguments.learning_rate, arguments.epochs, batch_size=32)
    lesson = keras_bert.Distillation(
        **{name: float(value) for name, value in (w.split("=") for w in arguments.distill)}
    )
    labels = sorted(set(train.y))
    tasks: dict[str, Any] = {}
    for name in (TEACHER, PLAIN, FEWER, TAUGHT):
        keras.utils.set_random_seed(seed)
        if name in (FEWER, TAUGHT):
            task = tasks[TEACHER].with_layers(arguments.layers)
        else:
            bert = keras_bert.load("minilm")
            bert = bert if name == TEACHER else bert.resize(num_hidden_layers=arguments.layers)
            task = keras_bert.TextClassifier(bert, labels)
        learned = {"teacher": tasks[TEACHER], "distillation": lesson} if name == TAUGHT else {}
        task.fit(train, recipe=recipe, seed=seed, verbose=0, **learned)
        tasks[name] = task
    return tasks


def speed(teacher: Any, student: Any, texts: Any) -> float:
    """How many times as fast the student answers: the median of the ratios of the rounds."""
    ratios = []
    for number in range(ROUNDS + 1):
        seconds = []
        for task in (teacher, student):
            began = time.perf_counter()
            task.classify(texts[:TIMED])
            seconds.append(time.perf_counter() - began)
        if number:  # the first round traces
            ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios)


def table(found: dict[str, list[float]], ratio: float) -> str:
    """A line for each model: mean and spread of its accuracy, and its gain over the first student, in points."""
    lines = ["", f"{'':26} accuracy +- spread    gain  speed"]
    plain = statistics.mean(found[PLAIN])
    for name, scores in found.items():
        mean = statistics.mean(scores)
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        times = 1.0 if name == TEACHER else ratio
        lines.append(f"{name:26} {mean:8.2f} +- {spread:6.2f} {mean - plain:+7.2f} {times:5.2f}x")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
