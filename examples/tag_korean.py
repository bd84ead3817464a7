"""Who and what is named in a Korean text? Find entities that end inside a word, before its particle.

    python examples/tag_korean.py --model hf://klue/bert-base --train klue_ner_train.tsv --valid klue_ner_dev.tsv

Files: KLUE-NER's, a character and its tag on each line. Without --valid the last tenth is held out. Every piece has its
own label (unit="piece"), because a word such as 서울에서 contains the place 서울 and a particle. Default: KLUE-NER's
dev set from ../shared/data. With 2,000 sentences of it and a BERT-mini with random weights, on one core: a minute, F1
24 %. The settings, such as batches of 32, are in benchmarks/README.md under "Scores".
"""

import argparse
from pathlib import Path

import keras_bert
from keras_bert.tasks.readers import read_klue_ner

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ko"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="hf://klue/bert-base", help="anything that keras_bert.load accepts")
    parser.add_argument("--train", type=Path, default=DATA / "klue-ner.dev.tsv")
    parser.add_argument("--valid", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read only this many sentences of each file")
    arguments = parser.parse_args()
    if not arguments.train.is_file():
        parser.error("--train must be a file in KLUE-NER's format: a character, a tab and its tag on each line")

    # === Data: texts, and the entities of each as (start, end, type) in characters ===
    train = read_klue_ner(arguments.train)
    types = sorted({kind for entities in train.y for _, _, kind in entities})
    train = train[: arguments.limit]
    if arguments.valid:
        valid = read_klue_ner(arguments.valid)[: arguments.limit]
    else:
        kept = len(train) * 9 // 10
        train, valid = train[:kept], train[kept:]

    # === Model ===
    bert = keras_bert.load(arguments.model)
    labels = ["O", *(f"{letter}-{kind}" for kind in types for letter in "BI")]
    task = keras_bert.TokenTagger(bert, labels=labels, unit="piece")

    # === Training, with the paper's settings ===
    task.fit(train, validation_data=valid, epochs=arguments.epochs)

    # === Answers ===
    print(task.evaluate(valid, return_dict=True, verbose=0))
    for entity in task.tag("손흥민은 2015년에 런던으로 갔다."):
        print(f"{entity.type} ({entity.score:.2f})  {entity.text}  [{entity.start}:{entity.end}]")


if __name__ == "__main__":
    main()
