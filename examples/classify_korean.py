"""Is a Korean film review good or bad? A classifier with named labels, from a file that has numbers.

    python examples/classify_korean.py --model hf://klue/bert-base --train ratings_train.txt --valid ratings_test.txt

Files: NSMC's, tab-separated with the columns id, document and label (0 or 1). Without --valid the last tenth is held
out. Default: 20,000 rows of NSMC from ../shared/data. With 2,000 of them and a BERT-mini with random weights, on one
core: a minute, accuracy 73 %. The settings, such as batches of 32, are in benchmarks/README.md under "Scores".
"""

import argparse
from pathlib import Path

import keras_bert
from keras_bert.tasks.readers import Rows, read_labels

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ko"
NAMES = {"0": "부정", "1": "긍정"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="hf://klue/bert-base", help="anything that keras_bert.load accepts")
    parser.add_argument("--train", type=Path, default=DATA / "nsmc20k.tsv")
    parser.add_argument("--valid", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read only this many rows of each file")
    arguments = parser.parse_args()
    if not arguments.train.is_file():
        parser.error("--train must be a file in NSMC's format: id, document and label, separated by tabs")

    # === Data: a few reviews of NSMC are empty and are skipped ===
    def read(path: Path) -> Rows:
        return read_labels(path, "document", "label", format="tsv", skip_empty=True)[: arguments.limit]

    train = read(arguments.train)
    if arguments.valid:
        valid = read(arguments.valid)
    else:
        kept = len(train) * 9 // 10
        train, valid = train[:kept], train[kept:]
    labels, held_out = ([NAMES[label] for label in rows.y] for rows in (train, valid))

    # === Model ===
    bert = keras_bert.load(arguments.model)
    task = keras_bert.TextClassifier(bert, labels=tuple(NAMES.values()))

    # === Training, with the paper's settings ===
    task.fit(train.x, labels, validation_data=(valid.x, held_out), epochs=arguments.epochs)

    # === Answers ===
    print(task.evaluate(valid.x, held_out, return_dict=True, verbose=0))
    for text in ("다시 보고 싶은 영화", "시간이 아까웠다"):
        answer = task.classify(text)
        print(f"{answer.label} ({answer.score:.2f})  {text}")


if __name__ == "__main__":
    main()
