"""How long it takes to read a table: the rows of a CSV file by keras_bert, beside `pandas.read_csv`.

    python benchmarks/tables.py                        a minute: 200,000 film reviews
    python benchmarks/tables.py --rows 1000            to try the script

The file is written by pandas. keras_bert reads it with Python's csv also where pandas is installed, and knows the line
of each row. Needs ../shared/data.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas
from finetuning_data import DATASETS

from keras_bert.tasks import readers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    reviews, _ = DATASETS["nsmc"].read()
    times = -(-asked.rows // len(reviews.x))
    frame = pandas.DataFrame({"text": reviews.x * times, "label": reviews.y * times})[: asked.rows]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reviews.csv"
        frame.to_csv(file, index=False)

        def ours() -> list[list[str]]:
            rows = readers.read_labels(file)
            return [rows.x, rows.y]

        def theirs() -> list[list[str]]:
            table = pandas.read_csv(file, dtype=str, keep_default_na=False)
            return [table["text"].tolist(), table["label"].tolist()]

        if ours() != theirs():
            raise SystemExit("The rows differ.")
        rounds = [(seconds(ours), seconds(theirs)) for _ in range(asked.rounds)]
        print(f"{len(frame):,} rows, {file.stat().st_size / 1e6:.0f} MB, medians of {asked.rounds} rounds")
    for name, taken in zip(("keras_bert", "pandas"), zip(*rounds, strict=True), strict=True):
        print(f"{name:10} {statistics.median(taken):6.2f} s")


def seconds(read: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    read()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
