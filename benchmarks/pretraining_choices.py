"""Compare choices of pretraining on BERT-mini, each with the same time: masks, dropout and next sentences.

    python benchmarks/pretraining_choices.py                                  20 minutes for each choice; about 3 hours
    python benchmarks/pretraining_choices.py --minutes 0.5 --seeds 1 --epochs 1 --only paper "30 % masked"

Needs ../shared/data: 84 English books and Korean film reviews to learn from, and ten other books to test. The reviews
are there for NSMC, which is Korean. A first run of some steps measures the speed, which decides the number of steps.
All choices are tested with 15 % of the pieces masked, on pairs of segments and on rows of full sentences, and are
fine-tuned with dropout 0.1. With --folder, the same command resumes and does not repeat what is finished.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PAPER = {"rate": 0.15, "dropout": 0.1, "nsp": True}
CHOICES: dict[str, dict[str, Any]] = {
    "paper": PAPER,
    "30 % masked": PAPER | {"rate": 0.3},
    "no dropout": PAPER | {"dropout": 0.0},
    "no next sentences": PAPER | {"nsp": False},
    "all three": {"rate": 0.3, "dropout": 0.0, "nsp": False},
}
TRIAL = 60  # steps, of which the first ten are not counted
TASKS = {
    "SST-2": ["--train", DATA / "en/sst2.train.txt", "--valid", DATA / "en/sst2.dev.txt", "--format", "label-text"],
    "NSMC": ["--train", DATA / "ko/nsmc20k.tsv", "--split", 0.25, "--text", "document", "--skip-empty"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20, help="of training for each choice")
    parser.add_argument("--only", nargs="+", default=list(CHOICES), choices=CHOICES)
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tuning")
    parser.add_argument("--epochs", type=int, default=3, help="of fine-tuning")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--dtype", default="mixed_bfloat16")
    parser.add_argument("--folder", type=Path, help="where all files are kept")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        sys.exit("../shared/data is missing. Put the shared data next to the project's folder.")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = {name: measured(name, folder, arguments) for name in arguments.only}
    columns = ["steps", "minutes", "masked: pairs", "masked: full rows", *TASKS]
    print(f"\n| {arguments.minutes:g} minutes each | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    for name, row in found.items():
        print(f"| {name} | {' | '.join(row[column] for column in columns)} |")


def measured(name: str, folder: Path, arguments: argparse.Namespace) -> dict[str, str]:
    """The row of the table for a choice."""
    choice = CHOICES[name]
    own = folder / name.replace(" ", "-").replace("%", "percent")
    results = own.with_suffix(".json")
    if results.exists():
        return json.loads(results.read_text())
    run = own / "run"
    data = examples(folder, choice["nsp"], choice["rate"])
    options = ["pretrain", "--data", data, "--size", "mini", "--recipe", "tiny-laptop", "--dropout", choice["dropout"]]
    options += ["--batch-size", arguments.batch_size, "--learning-rate", arguments.learning_rate]
    options += ["--dtype", arguments.dtype]
    if not (own / "steps").exists():
        command(*options, "--steps", TRIAL, "--output", own / "trial")
        seconds = statistics.median(values(own / "trial", "seconds_per_step"))
        (own / "steps").write_text(str(max(1, round(60 * arguments.minutes / seconds))))
    steps = (own / "steps").read_text()
    command(*options, "--steps", steps, "--output", run)
    rows = {"steps": steps, "minutes": f"{statistics.mean(values(run, 'seconds_per_step')) * int(steps) / 60:.1f}"}
    for form, nsp in (("pairs", True), ("full rows", False)):
        held_out = examples(folder, nsp, 0.15, held_out=True)
        scores = json.loads(command("evaluate", run, "--data", held_out, "--json").splitlines()[-1])
        rows[f"masked: {form}"] = f"{scores['masked_lm_accuracy']:.1%}"
    config = run / "bert_config.json"
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config.write_text(json.dumps(json.loads(config.read_text()) | dropout))
    for task, files in TASKS.items():
        tuned = ["--model", run, "--output", own / task, "--epochs", arguments.epochs, "--learning-rate", 1e-4]
        seeds = ["--seeds", arguments.seeds] if arguments.seeds > 1 else []
        command("finetune", "classify", *files, *tuned, *seeds)
        metrics = json.loads((own / task / "metrics.json").read_text())
        mean, spread = metrics["spread"]["accuracy"] if seeds else (metrics["valid"]["accuracy"], 0.0)
        rows[task] = f"{mean:.1%} +- {spread:.1%}" if seeds else f"{mean:.1%}"
    results.write_text(json.dumps(rows))
    print(name, rows, flush=True)
    return rows


def examples(folder: Path, nsp: bool, rate: float, held_out: bool = False) -> Path:
    """The folder of examples; every ninth book is held out."""
    vocabulary, books = folder / "vocab.txt", sorted((DATA / "books").glob("*.md"))
    learned = [book for number, book in enumerate(books, 1) if number % 9] + [DATA / "ko" / "reviews.txt"]
    if not vocabulary.exists():
        command("vocab", *learned, "--size", 12_000, "--keep-accents", "--output", vocabulary)
    data = folder / f"{'held-out' if held_out else 'data'}-{'pairs' if nsp else 'rows'}-{rate}"
    options = ["--vocab", vocabulary, "--keep-accents", "--rate", rate, "--nsp" if nsp else "--no-nsp"]
    command("examples", *(books[8::9] if held_out else learned), "--output", data, *options)
    return data


def values(run: Path, name: str) -> list[float]:
    """What a run logged under this name."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [record[name] for record in map(json.loads, lines) if name in record]


def command(*words: Any) -> str:
    """What `keras-bert` prints; it resumes what is not finished, and does not repeat what is."""
    print("keras-bert", *(Path(word).name if isinstance(word, Path) else word for word in words), flush=True)
    line = [sys.executable, "-W", "ignore", "-m", "keras_bert_cli", *map(str, words)]
    return subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
