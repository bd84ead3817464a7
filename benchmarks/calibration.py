"""What calibration changes on rows that it has not seen: macro F1 with tuned thresholds, and the calibration error.

    python benchmarks/calibration.py                       about an hour on 2 cores: three seeds of both
    python benchmarks/calibration.py --limit 64 --epochs 1 --seeds 1                 a minute, to try the script

Needs ../shared/data. Both tasks start from MiniLM. Thresholds: which of the six types of WNUT-17's entities a sentence
has, from 15 % of the sentences (person) to 3 % (product); trained on its training file, tuned on the development file,
scored on the test file. Temperature: SST-2, 2,000 rows; fitted on the development file, scored on the test file. For
some values of `abstain_below`, the share of the test rows that then get a label, and how many of these labels are
right. With --results FILE, each seed is stored, and the same command does not repeat it.
"""

import argparse
import os
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parent))

import finetuning

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "en"
ABSTAIN_BELOW = (0.6, 0.7, 0.8, 0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(DATA_SETS), choices=DATA_SETS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="rows of each file")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    arguments = parser.parse_args()
    settings = {name: value for name, value in vars(arguments).items() if name not in ("only", "seeds", "results")}
    if not DATA.is_dir():
        sys.exit("../shared/data is missing. Put the shared data next to the project's folder.")
    for name in arguments.only:
        score, read = DATA_SETS[name]
        files = [[column[: arguments.limit] for column in read(part)] for part in ("train", "dev", "test")]
        found = []
        for seed in range(arguments.seeds):
            measure = partial(before_and_after, *files, score, seed, arguments)
            done = finetuning.stored({"data": name, "seed": seed, **settings}, arguments.results, measure)
            found.append(done)
            print(f"{name} seed {seed}: {score} {done['before']:.4f} -> {done['after']:.4f}", flush=True)
        before, after = (statistics.mean(done[name] for done in found) for name in ("before", "after"))
        print(f"{name}: {score} {before:.4f} -> {after:.4f}, mean of {arguments.seeds} seeds", flush=True)
        for least, pairs in zip(ABSTAIN_BELOW, zip(*(done["answered"] for done in found), strict=True), strict=False):
            share, right = (100 * statistics.mean(values) for values in zip(*pairs, strict=True))
            print(f"  abstain_below={least:g}: a label for {share:.1f} % of the rows, {right:.2f} % right", flush=True)


def entity_types(part: str) -> tuple[list[str], list[Any]]:
    """Sentences, and the types of the entities in each."""
    from keras_bert.tasks.readers import read_conll

    rows = read_conll(DATA / f"wnut17.{part}.conll")
    return [" ".join(words) for words in rows.x], [sorted({tag[2:] for tag in tags if tag != "O"}) for tags in rows.y]


def sentiment(part: str) -> tuple[list[str], list[Any]]:
    from keras_bert.tasks.readers import read_labels

    rows = read_labels(DATA / f"sst2.{part}.txt", format="label-text")
    count = 2000 if part == "train" else None
    return list(rows.x[:count]), list(rows.y[:count])


DATA_SETS: dict[str, Any] = {"wnut17": ("f1_macro", entity_types), "sst2": ("calibration_error", sentiment)}


def before_and_after(train: Any, dev: Any, test: Any, score: str, seed: int, arguments: Any) -> dict[str, Any]:
    """A score of the test rows with the defaults, and after calibration on the development rows.

    And for each of `ABSTAIN_BELOW`, the share of rows with a label, and the accuracy of these labels.
    """
    import keras

    import keras_bert
    from keras_bert.tasks.finetune_recipe import FinetuneRecipe

    keras.utils.set_random_seed(seed)
    several = isinstance(train[1][0], list)
    labels = sorted({label for row in train[1] for label in (row if several else [row])})
    task = keras_bert.TextClassifier(keras_bert.load("minilm"), labels, multi_label=several)
    known = set(labels)
    dev, test = ([x, [[one for one in row if one in known] for row in y] if several else y] for x, y in (dev, test))
    recipe = FinetuneRecipe(arguments.learning_rate, arguments.epochs, arguments.batch_size)
    task.fit(*train, recipe=recipe, seed=seed, verbose=0)
    before = task.evaluate(*test, return_dict=True, verbose=0)[score]
    print(f"  {task.calibrate(*dev)}", flush=True)
    after = task.evaluate(*test, return_dict=True, verbose=0)[score]
    answered = []
    for least in () if several else ABSTAIN_BELOW:
        task.abstain_below = least
        scores = task.evaluate(*test, return_dict=True, verbose=0)
        answered.append((scores["answered"], scores["accuracy_answered"]))
    return {"before": before, "after": after, "answered": answered}


if __name__ == "__main__":
    main()
