"""Find the answer to a question in a text: the words of the answer, copied from a context of any length.

    python examples/answer.py --model base --train train-v1.1.json --valid dev-v1.1.json

Files: SQuAD's JSON, v1.1 or v2.0; KorQuAD v1 has the same form. Without --valid the last fifth is held out.
Default: English XQuAD from ../shared/data. SQuAD's training set is 70 times as large and gives far better scores. With
MiniLM's weights, on one core: 13 minutes, F1 36 %. The settings, such as batches of 32, are in benchmarks/README.md
under "Scores".
"""

import argparse
from pathlib import Path

import keras_bert
from keras_bert.tasks.readers import read_squad

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "en"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base", help="anything that keras_bert.load accepts")
    parser.add_argument("--train", type=Path, default=DATA / "xquad.en.json")
    parser.add_argument("--valid", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read only this many questions of each file")
    arguments = parser.parse_args()
    if not arguments.train.is_file():
        parser.error("--train must be a JSON file in SQuAD's format")

    # === Data: columns of questions, contexts and answers ===
    train = read_squad(arguments.train)[: arguments.limit]
    if arguments.valid:
        valid = read_squad(arguments.valid)[: arguments.limit]
    else:
        contexts, kept = train.x[1], len(train) * 4 // 5
        while kept > 1 and contexts[kept] == contexts[kept - 1]:  # keep each context on one side
            kept -= 1
        train, valid = train[:kept], train[kept:]

    # === Model ===
    bert = keras_bert.load(arguments.model, seq_length=384)
    some_without = any(not answers["text"] for answers in train.y)  # SQuAD v2.0
    task = keras_bert.QuestionAnswerer(bert, null_threshold=0.0 if some_without else None)

    # === Training, with the paper's settings ===
    task.fit(train, validation_data=valid, epochs=arguments.epochs)

    # === Answers ===
    print(task.evaluate(valid, return_dict=True, verbose=0))
    few = valid[:3]
    for question, answer, wanted in zip(few.x[0], task.answer(*few.x), few.y, strict=True):
        print(f"{question}\n  {answer.text!r} ({answer.score:.2f}), wanted {wanted['text']}")


if __name__ == "__main__":
    main()
