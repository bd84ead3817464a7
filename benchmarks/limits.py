"""Memory and processor time of one request to `keras-bert serve`, by the bytes of its texts.

    python benchmarks/limits.py        some minutes; prints the table of docs/serving.md

Each request runs on a server that has answered small requests before. Memory is how much the peak of the server's
resident memory during the request exceeds its memory before it. The model is small and random (2 layers of width 32),
so that the time is that of the text; a large model adds its own for every piece.
"""

import json
import os
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# The C library returns memory as soon as it is freed, or a request could use what the one before it has freed.
os.environ |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}

from running_server import export_server
from serving_soak import model

SIZES = (64_000, 256_000, 1_000_000)  # bytes
WORST = "\u302e\u0301 "  # two marks that change places


def texts(size: int) -> dict[str, list[str]]:
    """Batches of about this many bytes. Those of fewer pieces than bytes are within the default limit of pieces."""
    return {
        "English": ["the film was good and long " * (size // 27)],
        "one long word": ["b" * size],
        "256 texts": ["the film was good and long " * (size // 256 // 27)] * 256,
        "255 short texts, one long": ["a"] * 255 + ["b" * size],
        "combining marks that normalization reorders": [WORST + "b" * (size // 2) + " " * (size // 2)],
        "punctuation": ["!" * size],
    }


def status(pid: int, name: str) -> int:
    with open(f"/proc/{pid}/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def processor_seconds(pid: int) -> float:
    """The time that all threads of a process have had on a processor, which does not depend on what else runs."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(port: int, name: str, rows: list[str]) -> int:
    body = json.dumps({"instances": rows}, ensure_ascii=False).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models/{name}:predict", body)
    with urllib.request.urlopen(request, timeout=600) as answer:
        answer.read()
    return len(body)


def tagger() -> Any:
    import keras_bert

    return keras_bert.TokenTagger(model().bert, labels=("O", "B-A", "I-A"))


def main() -> None:
    import keras_bert

    print("| request | export | " + " | ".join(f"{size // 1000} kB" for size in SIZES) + " |")
    print("|---|---|" + "---|" * len(SIZES))
    with tempfile.TemporaryDirectory() as made:
        for name, task in (("classifier", model()), ("tagger", tagger())):
            folder = Path(made) / name
            keras_bert.export(task, folder)
            with export_server(folder, "--max-pieces", "10000000") as (port, process, _):
                for kind in texts(1000):
                    ask(port, name, texts(1000)[kind])
                    cells = [measured(port, process.pid, name, texts(size)[kind]) for size in SIZES]
                    print(f"| {kind} | {name} | {' | '.join(cells)} |", flush=True)


def measured(port: int, pid: int, name: str, rows: list[str]) -> str:
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")  # resets the peak
    before, begin = status(pid, "VmRSS"), processor_seconds(pid)
    try:
        ask(port, name, rows)
    except urllib.error.HTTPError as error:
        return f"{error.code}"
    seconds = processor_seconds(pid) - begin
    return f"{(status(pid, 'VmHWM') - before) / 1e6:.0f} MB, {seconds:.2f} s"


if __name__ == "__main__":
    main()
