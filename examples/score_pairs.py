"""How similar are two sentences? A score for each pair, read together or, with --cosine, as two embeddings.

    python examples/score_pairs.py --model base --train train.tsv --valid valid.tsv
    python examples/score_pairs.py --model base --cosine

Read together, each text sees the other, which scores better. With --cosine, a text is embedded once and can be compared
with many. Files: tab-separated with the columns sentence1, sentence2 and score (0 to 5), as in KorSTS; or a .csv of
these three without a header. Default: STS-B from ../shared/data. With 1,500 rows of it and MiniLM's weights, on one
core: 2 minutes, Spearman 0.78. The settings, such as batches of 32, are in benchmarks/README.md under "Scores".
"""

import argparse
from pathlib import Path

import keras_bert
from keras_bert.tasks.readers import Rows, read_scores

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "en"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base", help="anything that keras_bert.load accepts")
    parser.add_argument("--train", type=Path, default=DATA / "stsb.train.csv")
    parser.add_argument("--valid", type=Path, default=DATA / "stsb.dev.csv")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read only this many rows of each file")
    parser.add_argument("--cosine", action="store_true", help="embed each text by itself and compare the embeddings")
    arguments = parser.parse_args()
    if not (arguments.train.is_file() and arguments.valid.is_file()):
        parser.error("--train and --valid must be files with the columns sentence1, sentence2 and score")

    # === Data: a pair is a tuple of two columns; scores are scaled to 0...1, the range of the cosine ===
    def read(path: Path) -> Rows:
        columns = ((0, 1), 2) if path.suffix == ".csv" else (("sentence1", "sentence2"), "score")
        return read_scores(path, *columns, scale=5)[: arguments.limit]

    train, valid = read(arguments.train), read(arguments.valid)

    # === Model ===
    bert = keras_bert.load(arguments.model)
    task = keras_bert.TextRegressor(bert, pairs="cosine" if arguments.cosine else "together")

    # === Training, with the paper's settings ===
    task.fit(train, validation_data=valid, epochs=arguments.epochs)

    # === Answers ===
    print(task.evaluate(valid, return_dict=True, verbose=0))
    few = valid[:3]
    for one, other, score, wanted in zip(*few.x, task.score(few.x), few.y, strict=True):
        print(f"{score:.2f} (people: {wanted:.2f})  {one} / {other}")


if __name__ == "__main__":
    main()
