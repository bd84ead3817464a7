"""Score a bag of words on a file of labelled texts: the baseline for a model that reads the words in order.

    python examples/bag_of_words.py demo/world/reviews.train.tsv demo/world/reviews.valid.tsv

Expected time: seconds. Expected score: about 0.5 on the reviews of examples/small_world.py, where the order decides.
"""

import csv
import sys

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline


def read(path: str) -> tuple[list[str], list[str]]:
    """The columns `text` and `label` of a TSV file."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def main() -> None:
    train, valid = sys.argv[1:]
    words = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=1000))
    words.fit(*read(train))
    print(f"accuracy\t{words.score(*read(valid)):.4f}")


if __name__ == "__main__":
    main()
