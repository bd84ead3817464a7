"""Which of 20 books is a passage from, of 2,000 words and marks: windows and both ends of it against truncation.

    python benchmarks/long_documents.py                                        hours on 2 cores: three seeds of each
    python benchmarks/long_documents.py --only truncate-128 windows-128 --seeds 1
    python benchmarks/long_documents.py --books 3 --limit 2 --words 300 --epochs 1         a minute, to try the script

Needs ../shared/data/books. Passages do not overlap: the first 70 % of each book to learn from, the last 20 % to test,
and nothing of the 10 % between. Proper names become the word "name", so that style and not names must decide: a
capitalized word inside a sentence that has no lower-case form as often in all books. The model is MiniLM. Each training
is its own process. With --results FILE it is also stored, and the same command does not repeat it.
"""

import argparse
import functools
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parent))

import finetuning

BOOKS = Path(__file__).resolve().parents[2] / "shared" / "data" / "books"
CONTESTANTS = [f"{long}-{length}" for length in (128, 512) for long in ("truncate", "head-tail", "windows")]
LEAST, MOST = 60_000, 100_000  # words of a book
WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?|[^\sA-Za-z]")


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        return worker(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=CONTESTANTS, choices=CONTESTANTS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--books", type=int, default=20)
    parser.add_argument("--words", type=int, default=2000, help="of a passage")
    parser.add_argument("--limit", type=int, help="passages of a book to learn from, and as many to test")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--pool", default="mean", choices=("mean", "max", "attention"))
    parser.add_argument("--max-windows", type=int, default=8)
    parser.add_argument("--dtype", default="float32", choices=("float32", "mixed_bfloat16"))
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    arguments = parser.parse_args()
    settings = {name: value for name, value in vars(arguments).items() if name not in ("only", "seeds", "results")}
    print(settings, flush=True)
    found: dict[str, list[float]] = {name: [] for name in arguments.only}
    for seed in range(arguments.seeds):
        for name in arguments.only:
            run = {"name": name, "seed": seed, **settings}
            result = finetuning.stored(run, arguments.results, functools.partial(in_process, run))
            found[name].append(100 * result["accuracy"])
            print(f"  seed {seed}  {name:13} {100 * result['accuracy']:5.1f} %  {result['seconds']:6.0f} s", flush=True)
    for name, values in found.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(f"{name:13} {statistics.mean(values):5.1f} +- {spread:.1f} %", flush=True)


def in_process(run: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, "worker", json.dumps(run)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{run['name']} failed; its output is above.")
    return json.loads(done.stdout.splitlines()[-1])


def worker(given: dict[str, Any]) -> None:
    """Train one contestant, and print its accuracy on the test passages."""
    import keras

    import keras_bert
    from keras_bert.tasks.finetune_recipe import FinetuneRecipe

    train, test = passages(given["books"], given["words"], given["limit"])
    labels = sorted({title for _, title in train})
    long, _, length = given["name"].rpartition("-")
    keras.utils.set_random_seed(given["seed"])
    bert = keras_bert.load("minilm", seq_length=int(length), dtype=given["dtype"])
    options = {"long": long, "pool": given["pool"], "max_windows": given["max_windows"]}
    task = keras_bert.TextClassifier(bert, labels, **options)
    recipe = FinetuneRecipe(given["learning_rate"], given["epochs"], given["batch_size"])
    start = time.perf_counter()
    x, y = map(list, zip(*train, strict=True))
    task.fit(x, y, recipe.batch_size, recipe=recipe, seed=given["seed"], verbose=0)
    seconds = time.perf_counter() - start
    answers = task.classify([text for text, _ in test])
    right = [answer.label == title for answer, (_, title) in zip(answers, test, strict=True)]
    print(json.dumps({"accuracy": sum(right) / len(right), "seconds": seconds, "rows": [len(train), len(test)]}))


def passages(count: int, words: int, limit: int | None) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Passages with the titles of their books, to learn from and to test."""
    if not BOOKS.is_dir():
        sys.exit("../shared/data/books is missing. Put the shared data next to the project's folder.")
    books: dict[str, list[str]] = {}
    for path in sorted(BOOKS.glob("*.md")):
        text = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
        tokens = WORD.findall(text)
        if len(tokens) >= LEAST:
            books.setdefault("-".join(path.stem.split("-")[:2]), tokens[:MOST])  # one book of an author
    names = proper_names(books.values())
    train, test = [], []
    for title, tokens in list(books.items())[:count]:
        plain = ["name" if token in names else token for token in tokens]
        parts = (plain[: len(plain) * 7 // 10], plain[len(plain) * 8 // 10 :])
        for part, rows in zip(parts, (train, test), strict=True):
            cut = [" ".join(part[start : start + words]) for start in range(0, len(part) - words + 1, words)]
            rows += [(text, title) for text in cut[:limit]]
    return train, test


def proper_names(books: Any) -> set[str]:
    """Capitalized words that occur inside sentences more often than in lower case."""
    inside: Counter[str] = Counter()
    lower: Counter[str] = Counter()
    for tokens in books:
        lower.update(token for token in tokens if token.islower())
        pairs = itertools.pairwise(tokens)
        inside.update(token for before, token in pairs if token.istitle() and (before[0].isalpha() or before == ","))
    del inside["I"]
    return {token for token, times in inside.items() if times > lower[token.lower()]}


if __name__ == "__main__":
    main()
