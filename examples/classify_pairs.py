"""Does the second sentence follow from the first, contradict it, or neither? Classify pairs of texts.

    python examples/classify_pairs.py --model hf://klue/bert-base --train train.tsv --valid valid.tsv

Files: tab-separated with the columns sentence1, sentence2 and gold_label, as in KorNLI and MNLI.
Default: KorNLI from ../shared/data. Its large training set is not there, so this trains on the dev set and scores on
the test set. With a BERT-mini with random weights, on one core: 2 minutes, accuracy 41 % (chance: 33). The settings,
such as batches of 32, are in benchmarks/README.md under "Scores".
"""

import argparse
from pathlib import Path

import keras_bert
from keras_bert.tasks.readers import read_labels

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ko"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="hf://klue/bert-base", help="anything that keras_bert.load accepts")
    parser.add_argument("--train", type=Path, default=DATA / "kornli.dev.tsv")
    parser.add_argument("--valid", type=Path, default=DATA / "kornli.test.tsv")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read only this many rows of each file")
    arguments = parser.parse_args()
    if not (arguments.train.is_file() and arguments.valid.is_file()):
        parser.error("--train and --valid must be files with the columns sentence1, sentence2 and gold_label")

    # === Data: a pair is a tuple of two columns ===
    files = (arguments.train, arguments.valid)
    train, valid = (read_labels(path, ("sentence1", "sentence2"), "gold_label") for path in files)
    labels = sorted(set(train.y))
    train, valid = train[: arguments.limit], valid[: arguments.limit]

    # === Model ===
    bert = keras_bert.load(arguments.model)
    task = keras_bert.TextClassifier(bert, labels=labels)

    # === Training, with the paper's settings ===
    task.fit(train, validation_data=valid, epochs=arguments.epochs)

    # === Answers ===
    print(task.evaluate(valid, return_dict=True, verbose=0))
    for hypothesis in ("남자가 악기를 연주한다.", "남자가 자고 있다."):
        answer = task.classify(("한 남자가 기타를 친다.", hypothesis))
        print(f"{answer.label} ({answer.score:.2f})  {hypothesis}")


if __name__ == "__main__":
    main()
