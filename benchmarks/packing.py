"""Compare shared rows (sequence packing) with padding, on JAX, in one run: seconds, ratios, real tokens, shapes.

    python benchmarks/packing.py                about ten minutes on 2 cores
    python benchmarks/packing.py --rounds 3 --texts 640

The encoder has MiniLM's size, with random weights: 6 blocks, hidden size 384. With "padding", a batch is computed as it
is, or in an epoch as `fit` makes batches without shared rows: sorted by length within groups of four batches. Both run
in turn. A ratio is that of the medians.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from encoder_peers import batch
from finetuning_data import DATA, read
from rich.console import Console
from rich.table import Table

import keras_bert
from keras_bert.model import Model
from keras_bert.tasks.rows import labelled_rows
from keras_bert.text.shared_rows import SHARED_ROWS, SharedRows

BATCH, LENGTH, MEAN = 32, 128, 30  # of which 28 are left when texts are cut to 128
VOCABULARIES = {"sst2": None, "nsmc": "vocab/kcbert-30000.txt", "klue-ner": "vocab/kcbert-30000.txt"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--texts", type=int, default=1280, help="of SST-2 in an epoch")
    options = parser.parse_args()
    table = Table("MiniLM's size, float32", "padding, s", "shared rows, s", "ratio")
    for name, runs in {
        f"encoder, ragged {BATCH} x {LENGTH}": encoder(),
        f"fine-tuning step, ragged {BATCH} x {LENGTH}": step(),
        f"epoch of {options.texts} texts of SST-2": epoch(options.texts),
    }.items():
        padding, shared = race(runs, options.rounds)
        table.add_row(name, f"{padding:.3f}", f"{shared:.3f}", f"{padding / shared:.2f}")
    Console().print(table)
    table = Table("batches of 32, three epochs", "texts", "real tokens", "shapes")
    for name in VOCABULARIES:
        table.add_row(name, *shares(name))
    Console().print(table)


def race(runs: tuple[Callable[[], Any], ...], rounds: int) -> list[float]:
    """The median seconds of each, in turn, after one run that compiles."""
    seconds: list[list[float]] = [[] for _ in runs]
    for number in range(rounds + 1):
        for run, found in zip(runs, seconds, strict=True):
            start = time.perf_counter()
            run()
            if number:
                found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in seconds]


def task(vocabulary: str | None = None) -> keras_bert.TextClassifier:
    keras.utils.set_random_seed(0)
    if vocabulary is None:
        bert = keras_bert.load("minilm", local_only=True)
    else:
        pieces = keras_bert.Vocabulary.from_file(DATA / vocabulary)
        preprocessor = keras_bert.Preprocessor(pieces, lowercase=False, seq_length=LENGTH)
        bert = keras_bert.Bert(keras_bert.BertConfig.from_size("tiny", vocab_size=len(pieces)), preprocessor)
    return keras_bert.TextClassifier(bert, labels=("0", "1"))


def ragged() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A batch with padding, and the same with shared rows."""
    x = batch(BATCH, LENGTH, MEAN)
    lengths = x["input_mask"].sum(1)
    return x, {**x, SHARED_ROWS: SharedRows.of([lengths]).sources(lengths, LENGTH)}


def encoder() -> tuple[Callable[[], Any], ...]:
    bert = task().bert
    model = Model(bert.input, bert.output["pooled_output"])
    return tuple(lambda x=x: model.predict_on_batch(x) for x in ragged())


def step() -> tuple[Callable[[], Any], ...]:
    model = task()
    model.compile(keras_bert.AdamW(1e-5), model.default_loss())
    y = np.arange(BATCH) % 2
    return tuple(lambda x=x: model.train_on_batch(x, y) for x in ragged())


def epoch(texts: int) -> tuple[Callable[[], Any], ...]:
    model, rows = task(), read("sst2", texts)[0]
    examples = model.examples(rows.x, rows.y)
    model.compile(keras_bert.AdamW(1e-5), model.default_loss())

    def run(worth: float) -> None:
        labelled_rows.WORTH = worth
        model.fit(examples.shuffled(BATCH, seed=0, epoch=0), verbose=0)

    return lambda: run(float("inf")), lambda: run(1.2)


def shares(name: str) -> tuple[str, ...]:
    """The number of texts, the share of real tokens in the rows, and the number of shapes that are compiled."""
    rows = read(name, None)[0]
    examples = task(VOCABULARIES[name]).examples(list(rows.x), ["0"] * len(rows.x))
    positions, real, shapes = 0, 0, set()
    for number in range(3):
        batches = examples.shuffled(BATCH, seed=0, epoch=number)
        for index in range(len(batches)):
            x, _, _ = batches[index]
            positions += x[SHARED_ROWS].size
            real += int(x["input_mask"].sum())
            shapes.add((x["input_mask"].shape, x[SHARED_ROWS].shape))
    return str(len(examples)), f"{real / positions:.1%}", str(len(shapes))


if __name__ == "__main__":
    main()
