"""Students of three layers with their teacher and without: MiniLM, six layers, fine-tuned on SST-2.

    python benchmarks/distillation.py                                     all rows, three seeds
    python benchmarks/distillation.py --limit 2000 --unlabelled           the other rows have no labels
    python benchmarks/distillation.py --limit 1000 --epochs 2 --seeds 1   a few minutes, to try the script

Needs ../shared/data. For each seed, MiniLM is fine-tuned, and becomes the teacher. Then students of --layers layers are
trained on the same rows, for the same number of epochs: one that starts from MiniLM's layers, one that starts from the
teacher's, and for each --distill one that starts from the teacher's and also learns from its answers, with the
defaults of `Distillation` and these numbers.

With --unlabelled, only the rows of --limit have labels. For each --distill, there is one more student. It also learns
from the texts of the other rows, with the labels that the teacher gives them. Its training has more steps, so there is
a student without a teacher for as many steps, too.

Scores are accuracies. The validation file (dev) chooses among the last students; the test file chooses nothing. The
speed is that of `classify` on the first texts of the test file, in turn with the teacher. With --results FILE, each
seed is stored, and the same command does not repeat it.
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
TEACHER, PLAIN, FEWER = "the teacher", "from MiniLM's layers", "from the teacher's layers"
LONGER = "the same, as many steps"
ROUNDS, TIMED = 5, 512  # of timing, and the texts in each
LESSONS = ["", "hidden=10", "hidden=10,attention=1"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--limit", type=int, help="train on only this many rows")
    parser.add_argument("--unlabelled", action="store_true", help="the teacher labels the texts of the other rows")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--distill", nargs="*", default=LESSONS, metavar="NAME=NUMBER,...", help="a student for each")
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    arguments = parser.parse_args()
    left_out = ("seeds", "results") if arguments.unlabelled else ("seeds", "results", "unlabelled")
    settings = {name: value for name, value in vars(arguments).items() if name not in left_out}
    if not DATA.is_dir():
        sys.exit("../shared/data is missing. Put the shared data next to the project's folder.")
    from keras_bert.tasks.readers import read_labels

    train, dev, test = (
        read_labels(DATA / f"sst2.{part}.txt", format="label-text") for part in ("train", "dev", "test")
    )
    texts, train = train.x, train[: arguments.limit]
    unlabelled = texts[len(train) :] if arguments.unlabelled else []

    def measure(seed: int) -> dict[str, Any]:
        tasks = trained(train, unlabelled, seed, arguments)
        return {
            "scores": {name: [accuracy(task, dev), accuracy(task, test)] for name, task in tasks.items()},
            "speed": speed(tasks[TEACHER], tasks[FEWER], test.x),
        }

    found: dict[str, list[list[float]]] = {}
    ratios = []
    for seed in range(arguments.seeds):
        done = finetuning.stored({"seed": seed, **settings}, arguments.results, partial(measure, seed))
        for name, scores in done["scores"].items():
            found.setdefault(name, []).append(scores)
            print(f"seed {seed}  {name:38} dev {scores[0]:6.2f}  test {scores[1]:6.2f}", flush=True)
        ratios.append(done["speed"])
    print(table(found, statistics.median(ratios)), flush=True)


def trained(train: Any, unlabelled: list[str], seed: int, arguments: Any) -> dict[str, Any]:
    """The teacher, and the students. The teacher labels the texts of `unlabelled` for some of them."""
    import keras

    import keras_bert

    recipe = keras_bert.FinetuneRecipe(arguments.learning_rate, arguments.epochs, batch_size=32)
    steps = arguments.epochs * -(-(len(train.x) + len(unlabelled)) // 32)
    labels = sorted(set(train.y))
    tasks: dict[str, Any] = {}

    def train_one(name: str, start: Any, rows: Any = (train.x, train.y), **options: Any) -> None:
        keras.utils.set_random_seed(seed)
        task = start()
        task.fit(*rows, recipe=recipe, seed=seed, verbose=0, **options)
        tasks[name] = task
        print(f"seed {seed}  {name}", file=sys.stderr, flush=True)

    def from_minilm(layers: int) -> Any:
        bert = keras_bert.load("minilm")
        return keras_bert.TextClassifier(bert.resize(num_hidden_layers=layers), labels)

    def from_teacher() -> Any:
        return tasks[TEACHER].with_layers(arguments.layers)

    train_one(TEACHER, lambda: from_minilm(6))
    train_one(PLAIN, lambda: from_minilm(arguments.layers))
    train_one(FEWER, from_teacher)
    if unlabelled:
        train_one(LONGER, from_teacher, max_steps=steps)
        answers = [answer.label for answer in tasks[TEACHER].classify(unlabelled)]
        more = (train.x + unlabelled, train.y + answers)
    for weights in arguments.distill:
        pairs = (pair.split("=") for pair in weights.split(",") if pair)
        lesson = keras_bert.Distillation(**{name: float(value) for name, value in pairs})
        taught = {"teacher": tasks[TEACHER], "distillation": lesson}
        train_one(f"taught, {weights or 'defaults'}", from_teacher, **taught)
        if unlabelled:
            train_one(f"  and with {len(unlabelled):,} texts more", from_teacher, more, **taught)
    return tasks


def accuracy(task: Any, rows: Any) -> float:
    return 100 * task.evaluate(rows.x, rows.y, return_dict=True, verbose=0)["accuracy"]


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


def table(found: dict[str, list[list[float]]], ratio: float) -> str:
    """A line for each model: means over the seeds, the spread, and the gain over the student without a teacher."""
    lines = ["", f"{'':38} {'dev':>15} {'test':>15}    gain  speed"]
    means = {name: [statistics.mean(part) for part in zip(*scores, strict=True)] for name, scores in found.items()}
    taught = [name for name in found if name not in (TEACHER, PLAIN, FEWER, LONGER)]
    chosen = max(taught, key=lambda name: means[name][0], default=None)
    for name, scores in found.items():
        cells = [
            f"{mean:6.2f} +- {statistics.stdev(part) if len(part) > 1 else 0:5.2f}"
            for mean, part in zip(means[name], zip(*scores, strict=True), strict=True)
        ]
        times = 1.0 if name == TEACHER else ratio
        mark = "  <- the best on dev" if name == chosen else ""
        lines.append(f"{name:38} {' '.join(cells)} {means[name][1] - means[PLAIN][1]:+7.2f} {times:5.2f}x{mark}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
