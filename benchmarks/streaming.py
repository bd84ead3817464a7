"""The memory of `keras-bert finetune` on a file that is read as a stream, beside the same run on a small file.

    python benchmarks/streaming.py                               minutes, and 2 GB of disk: 200 steps on 2 GB of JSONL
    python benchmarks/streaming.py --gigabytes 0.2 --memory      a smaller file, also read into memory
    python benchmarks/streaming.py --task embed --format parquet pairs of texts, in another format

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
COLUMNS = {"classify": ("text", "label"), "embed": ("text", "other")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="classify", choices=tuple(COLUMNS))
    parser.add_argument("--format", default="jsonl", choices=("jsonl", "tsv", "parquet"))
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
        valid, small, large = (folder / f"{name}.{arguments.format}" for name in ("valid", "small", "large"))
        columns = COLUMNS[arguments.task]
        write(valid, columns, arguments.words, 1_000)
        write(small, columns, arguments.words, BATCH * arguments.steps)
        rows = write(large, columns, arguments.words, BLOCK, int(arguments.gigabytes * 1e9))
        runs = [(small, "--no-stream"), (large, "--stream")]
        runs += [(large, "--no-stream")] if arguments.memory else []
        print(f"{arguments.task}, BERT-{arguments.size}, {arguments.steps} steps of {BATCH} rows")
        print(f"{large.name} has {rows:,} rows")
        texts = [word for name in columns if name != "label" for word in ("--text", name)]
        model = ["--size", arguments.size, "--vocab", folder / "vocab.txt", "--batch-size", BATCH]
        options = ["--valid", valid, *texts, *model, "--steps", arguments.steps]
        least = None
        for number, (path, how) in enumerate(runs):
            command = [arguments.task, "--train", path, *options, how, "--output", folder / f"run{number}"]
            peak, seconds = run(command, folder / f"run{number}.log")
            least = least or peak
            file, size = path.name, path.stat().st_size / 1e6
            beyond = f"peak {peak:6.0f} MB  beyond {peak - least:6.0f} MB"
            print(f"{file} {size:6.0f} MB  {how:11}  {seconds:5.0f} s  {beyond}", flush=True)


def write(path: Path, columns: tuple[str, str], words: int, rows: int, size: int = 0) -> int:
    """Write so many rows, and repeat them until they have this size; returns their number."""
    dice = random.Random(0)
    block = []
    for _ in range(rows):
        label = dice.random() < 0.5
        text = " ".join([*dice.choices(WORDS, k=words - 1), WORDS[label]])
        second = ("no", "yes")[label] if "label" in columns else text[: len(text) // 2]
        block.append(dict(zip(columns, (text, second), strict=True)))
    if path.suffix == ".parquet":
        return write_parquet(path, block, size)
    lines = ["\t".join(row.values()) if path.suffix == ".tsv" else json.dumps(row) for row in block]
    data = "".join(line + "\n" for line in lines).encode()
    times = max(1, size // len(data))
    with path.open("wb") as file:
        if path.suffix == ".tsv":
            file.write("\t".join(columns).encode() + b"\n")
        for _ in range(times):
            file.write(data)
    return times * rows


def write_parquet(path: Path, block: list[dict[str, str]], size: int) -> int:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist(block)
    with parquet.ParquetWriter(path, table.schema, compression="none", use_dictionary=False) as writer:
        times = max(1, size // table.nbytes)
        for _ in range(times):
            writer.write_table(table)
    return times * len(block)


def run(words: list, log: Path) -> tuple[float, float]:
    """The peak memory in megabytes and the seconds of `finetune` with these words, in a process of its own."""
    command = [sys.executable, "-m", "keras_bert_cli", "finetune", *words]
    start = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(log.read_text())
    return usage.ru_maxrss / 1024, time.perf_counter() - start


if __name__ == "__main__":
    main()
