"""How alike are two sentences? A number for a pair, read together or, with --cosine, as two embeddings.

    python examples/score_pairs.py --model base --train train.tsv --valid valid.tsv
    python examples/score_pairs.py --model base --cosine

Together each text sees the other, which scores better. With --cosine a text is embedded once and compared with many.
Files: tab-separated with the columns sentence1, sentence2 and score, 0 to 5, as KorSTS has them; or a .csv of these
three without a header. Default: STS-B of ../shared/data. 1,500 rows of it from MiniLM's weights, on one core: 2
minutes, Spearman 0.78, as benchmarks/README.md learns it under "Scores".
"""

import argparse
from pathlib import Path

import keras_bert
from keras_bert.tasks.readers import Rows, read_scores

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "en"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base", help="whatever keras_bert.load takes")
    parser.add_argument("--train", type=Path, default=DATA / "stsb.train.csv")
    parser.add_argument("--valid", type=Path, default=DATA / "stsb.dev.csv")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=int, help="read so many rows of each file alone")
    parser.add_argument("--cosine", action="store_true", help="embed each text alone, and compare the embeddings")
    arguments = parser.parse_args()
    if not (arguments.train.is_file() and arguments.valid.is_file()):
        parser.error("--train and --valid must be files with the columns sentence1, sentence2 and score")

    # === Data: a pair is a tuple of two columns; scores from 0 to 1, as a cosine can be ===
    def read(path: Path) -> Rows:
        columns = ((0, 1), 2) if path.suffix == ".csv" else (("sentence1", "sentence2"), "score")
        return read_scores(path, *columns, scale=5)[: arguments.limit]

    train, valid = read(arguments.train), read(arguments.valid)

    # === Model ===
    bert = keras_bert.load(arguments.model)
    task = keras_bert.TextRegressor(bert, pairs="cosine" if arguments.cosine else "together")

    # === Training, by the paper's recipe ===
    task.fit(train, validation_data=valid, epochs=arguments.epochs)

    # === Answers ===
    print(task.evaluate(valid, return_dict=True, verbose=0))
    few = valid[:3]
    for one, other, score, wanted in zip(*few.x, task.score(few.x), few.y, strict=True):
        print(f"{score:.2f} (people said {wanted:.2f})  {one} / {other}")


if __name__ == "__main__":
    main()
