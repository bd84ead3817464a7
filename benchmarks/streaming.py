"""The memory of `keras-bert finetune` on a file that is read as a stream, beside the same run on a small file.

    python benchmarks/streaming.py                               minutes, and 2 GB of disk: 200 steps on 2 GB of JSONL
    python benchmarks/streaming.py --gigabytes 0.2 --memory      a smaller file, also read into memory

Each run is its own process. "beyond" is its peak memory less that of the small file, which is read into memory and
holds as many rows as the steps need. The model has random weights.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = [first + last for first in "bdfgklmnprst" for last in ("ail", "ell", "ine", "ood", "ump", "ack", "est", "ilm")]
BLOCK = 20_000  # different rows, which are repeated
BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--words", type=int, default=50, help="of a text, about 5 bytes each")
    parser.add_argument("--size", default="mini", help="of the model")
    parser.add_argument("--memory", action="store_true", help="also read the large file into memory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        (folder / "vocab.txt").write_text("\n".join([*special, *WORDS]) + "\n")
        write(folder / "valid.jsonl", 1_000, arguments.words)
        write(folder / "small.jsonl", BATCH * arguments.steps, arguments.words)
        rows = write(folder / "large.jsonl", None, arguments.words, int(arguments.gigabytes * 1e9))
        runs = [("small.jsonl", "--no-stream"), ("large.jsonl", "--stream")]
        runs += [("large.jsonl", "--no-stream")] if arguments.memory else []
        print(f"BERT-{arguments.size}, {arguments.steps} steps of {BATCH} rows; large.jsonl has {rows:,} rows")
        least = None
        for number, (file, how) in enumerate(runs):
            peak, seconds = run(folder, number, file, how, arguments.size, arguments.steps)
            least = least or peak
            size = (folder / file).stat().st_size / 1e6
            beyond = f"peak {peak:6.0f} MB  beyond {peak - least:6.0f} MB"
            print(f"{file} {size:6.0f} MB  {how:11}  {seconds:5.0f} s  {beyond}", flush=True)


def write(path: Path, rows: int | None, words: int, size: int = 0) -> int:
    """Write so many rows, or as many as have this size; returns their number."""
    dice = random.Random(0)
    block = []
    for _ in range(rows or BLOCK):
        label = dice.random() < 0.5
        text = " ".join([*dice.choices(WORDS, k=words - 1), WORDS[label]])
        block.append(json.dumps({"text": text, "label": ("no", "yes")[label]}) + "\n")
    data = "".join(block).encode()
    times = max(1, size // len(data))
    with path.open("wb") as file:
        for _ in range(times):
            file.write(data)
    return times * len(block)


def run(folder: Path, number: int, file: str, how: str, size: str, steps: int) -> tuple[float, float]:
    """The peak memory in megabytes and the seconds of a run in a process of its own."""
    files = ["--train", folder / file, "--valid", folder / "valid.jsonl", "--output", folder / f"run{number}"]
    model = ["--size", size, "--vocab", folder / "vocab.txt", "--batch-size", BATCH, "--steps", steps]
    command = [sys.executable, "-m", "keras_bert_cli", "finetune", "classify", *files, *model, how]
    start = time.perf_counter()
    log = folder / f"run{number}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(log.read_text())
    return usage.ru_maxrss / 1024, time.perf_counter() - start


if __name__ == "__main__":
    main()
