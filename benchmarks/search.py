"""The time and the memory of the search behind `keras-bert search`, on random vectors in a file.

    python benchmarks/search.py                     1.5 GB of disk: a million vectors as wide as MiniLM's
    python benchmarks/search.py --vectors 10000     to try the script

"peak" is that of the arrays which the search makes, without the pages of the file that the system keeps in memory. The
nearest vectors are compared with those of a sort of all cosines in float64.
"""

import argparse
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

import keras_bert

PART = 10_000  # vectors that are drawn or compared together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 10, 100])
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        write(file, asked.vectors, asked.width, rng)
        vectors = np.load(file, mmap_mode="r")
        print(f"{asked.vectors:,} vectors of {asked.width}, a file of {file.stat().st_size / 1e6:.0f} MB")
        for count in asked.queries:
            queries = rng.standard_normal((count, asked.width), "float32")
            start = time.perf_counter()
            numbers, _ = keras_bert.nearest(queries, vectors)
            seconds = time.perf_counter() - start
            tracemalloc.start()
            keras_bert.nearest(queries, vectors)
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            same = (numbers == sorted_by_cosine(queries, vectors, numbers.shape[1])).mean()
            print(f"{count:4} queries  {seconds:6.2f} s  peak {peak:4.0f} MB  same as the sort {same:.0%}", flush=True)


def write(file: Path, count: int, width: int, rng: np.random.Generator) -> None:
    """Write random vectors, a part at a time."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
    with file.open("wb") as opened:
        np.lib.format.write_array_header_1_0(opened, header)
        for start in range(0, count, PART):
            opened.write(rng.standard_normal((min(PART, count - start), width), "float32").tobytes())


def sorted_by_cosine(queries: np.ndarray, vectors: Any, top: int) -> np.ndarray:
    """The numbers of the nearest vectors [Q, top], from all cosines."""
    cosines = []
    for start in range(0, len(vectors), PART):
        part = vectors[start : start + PART].astype("float64")
        cosines.append(queries @ part.T / np.linalg.norm(part, axis=1))  # of each query, times its length
    return np.argsort(-np.concatenate(cosines, axis=1), axis=1, kind="stable")[:, :top]


if __name__ == "__main__":
    main()
