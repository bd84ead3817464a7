"""Measure how fast hosts read pretraining examples together: the part of each is timed by itself, in turn.

    python benchmarks/feeding.py
    python benchmarks/feeding.py --examples 262144 --length 512 --batch 1024

The examples are random pieces, written as `keras-bert examples` writes them. Hosts train in step, so the slowest one
sets the pace: the rate is the examples of the global batches, divided by the most seconds that a host takes. "Core" is
the rate by the time that cores were busy, which other work on this machine disturbs less.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
from rich.console import Console
from rich.table import Table

from keras_bert.pretraining import write_examples
from keras_bert.pretraining.examples.read_examples import ExampleReader
from keras_bert.text.vocabulary import Vocabulary

HOSTS = (1, 2, 4)
WORDS = [f"w{number}" for number in range(1000)]
VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=131_072, help="of an epoch, at least")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1024, help="the global batch")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rates: dict[int, list[tuple[float, float]]] = {hosts: [] for hosts in HOSTS}
    with tempfile.TemporaryDirectory() as folder:
        reader = written(Path(folder), options.examples, options.length)
        for _ in range(options.rounds):
            for hosts in HOSTS:
                times = [seconds(reader, options.batch, (host, hosts)) for host in range(hosts)]
                read = len(reader) // options.batch * options.batch
                rates[hosts].append(tuple(read / max(kind) for kind in zip(*times, strict=True)))
        stored = sum(Path(path).stat().st_size for path in reader.paths) / len(reader)
    what = f"{len(reader):,} examples of {options.length}, {stored:.0f} bytes each, in batches of {options.batch:,}"
    table = Table(title=f"Reading {what}")
    for column in ("hosts", "examples/s", "of one host", "core, examples/s", "of one host"):
        table.add_column(column, justify="right")
    for hosts in HOSTS:
        cells = [str(hosts)]
        for kind in range(2):
            ratios = [many[kind] / one[kind] for many, one in zip(rates[hosts], rates[1], strict=True)]
            cells += [
                f"{statistics.median(rate[kind] for rate in rates[hosts]):,.0f}",
                f"{statistics.median(ratios):.2f}x",
            ]
        table.add_row(*cells)
    Console(width=100).print(table)


def written(folder: Path, examples: int, length: int) -> ExampleReader:
    """At least so many examples of documents of random words."""
    chance = np.random.default_rng(0)
    words = np.array(WORDS)
    sentences = 40
    texts = (
        "\n".join(" ".join(line) + " ." for line in words[chance.integers(0, len(WORDS), [sentences, length // 8])])
        for _ in range(1 + int(0.65 * examples * length / (sentences * (length // 8 + 1))))
    )
    options = {"seq_length": length, "sentences": "line", "workers": 1}
    write_examples(texts, folder / "examples", vocabulary=VOCABULARY, **options)
    return ExampleReader.open(folder / "examples")


def seconds(reader: ExampleReader, batch_size: int, part: tuple[int, int]) -> tuple[float, float]:
    """For an epoch after the first, in which its host does nothing else: of the clock, and of all cores together."""
    steps = len(reader) // batch_size
    batches = iter(reader.batches(batch_size, part=part))
    for _ in range(steps):
        next(batches)
    begin, busy = time.perf_counter(), time.process_time()
    for _ in range(steps):
        next(batches)
    return time.perf_counter() - begin, time.process_time() - busy


if __name__ == "__main__":
    main()
