"""Who and what is named in a text? Find entities, learning from tagged words.

    python examples/tag.py --model base-cased --train train.conll --valid valid.conll

Files: a word and its tag (B-PER, I-PER, O) on each line, and a blank line between sentences. Tags without B- and I-,
such as parts of speech, work too. Default: WNUT-17 from ../shared/data. With 2,000 sentences of it and MiniLM's
weights, on one core: 4 minutes, F1 48 %. The settings, such as batches of 32, are in benchmarks/README.md under
"Scores".
"""

import argparse
import itertools
from pathlib import Path

import keras_bert
from keras_bert.tasks.readers import read_conll

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "en"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base-cased", help="anything that keras_bert.load accepts")
    parser.add_argument("--train", type=Path, default=DATA / "wnut17.train.conll")
    parser.add_argument("--valid", type=Path, default=DATA / "wnut17.dev.conll")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read only this many sentences of each file")
    arguments = parser.parse_args()
    if not (arguments.train.is_file() and arguments.valid.is_file()):
        parser.error("--train and --valid must be files with a word and its tag on each line")

    # === Data: lists of words and lists of tags ===
    train, valid = (read_conll(path) for path in (arguments.train, arguments.valid))
    labels = sorted(set(itertools.chain(*train.y)))
    train, valid = train[: arguments.limit], valid[: arguments.limit]

    # === Model ===
    bert = keras_bert.load(arguments.model)
    task = keras_bert.TokenTagger(bert, labels=labels)

    # === Training, with the paper's settings ===
    task.fit(train, validation_data=valid, epochs=arguments.epochs)

    # === Answers: for plain text, not split into words ===
    print(task.evaluate(valid, return_dict=True, verbose=0))
    text = "Anna flew from Berlin to New York with Lufthansa."
    for entity in task.tag(text):
        print(f"{entity.type} ({entity.score:.2f})  {entity.text}  [{entity.start}:{entity.end}]")


if __name__ == "__main__":
    main()
