"""Is a review good or bad? Classify texts, learning from a file.

    python examples/classify.py --model base --train train.tsv --valid valid.tsv

Files: a TSV, CSV or JSONL with the columns "text" and "label", or a .txt whose lines are a label, a space and a
text. Default: SST-2 from ../shared/data. With 2,000 rows of it and MiniLM's weights, on one core: 4 minutes, accuracy
84 %. The settings, such as batches of 32, are in benchmarks/README.md under "Scores".
"""

import argparse
from pathlib import Path

import keras_bert
from keras_bert.tasks.readers import read_labels

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "en"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base", help="anything that keras_bert.load accepts")
    parser.add_argument("--train", type=Path, default=DATA / "sst2.train.txt")
    parser.add_argument("--valid", type=Path, default=DATA / "sst2.dev.txt")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read only this many rows of each file")
    arguments = parser.parse_args()
    if not (arguments.train.is_file() and arguments.valid.is_file()):
        parser.error("--train and --valid must be files with the columns text and label")

    # === Data ===
    train, valid = (read_labels(path) for path in (arguments.train, arguments.valid))
    labels = sorted(set(train.y))
    train, valid = train[: arguments.limit], valid[: arguments.limit]

    # === Model ===
    bert = keras_bert.load(arguments.model)
    task = keras_bert.TextClassifier(bert, labels=labels)

    # === Training, with the paper's settings ===
    task.fit(train, validation_data=valid, epochs=arguments.epochs)

    # === Answers ===
    print(task.evaluate(valid, return_dict=True, verbose=0))
    for text, answer in zip(valid.x[:3], task.classify(valid.x[:3]), strict=True):
        print(f"{answer.label} ({answer.score:.2f})  {text}")


if __name__ == "__main__":
    main()
