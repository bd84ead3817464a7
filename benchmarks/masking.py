"""What changes to the paper's pretraining bring in equal time: 30 % masked, no dropout, no next sentences, all three.

    python benchmarks/masking.py masking                                    hours on 2 cores
    python benchmarks/masking.py masking --corpus books --minutes 1 --files 8 --seeds 1      to see that it works

Needs ../shared/data. A BERT-mini is pretrained from random weights, on English books or on Korean film reviews: once by
the recipe tiny-laptop with batches of 32, which has the paper's 15 %, dropout 0.1 and pairs, and once for each change.
Each run gets the steps that it makes in --minutes, by the time of a step, which is measured first, with the recipes in
turn. All are scored on the same held-out text, of which 15 % is masked, and then fine-tuned on 2,000 rows of SST-2 or
NSMC, with several seeds. Everything is kept in the folder, and the same command resumes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parent))

import finetuning
import finetuning_data

ROUNDS, STEPS = 3, 40  # in which the time of a step is measured


class Change(NamedTuple):
    rate: float = 0.15
    dropout: float = 0.1
    nsp: bool = True


CHANGES = {
    "as in the paper": Change(),
    "30 % masked": Change(rate=0.3),
    "dropout 0": Change(dropout=0),
    "no next sentences": Change(nsp=False),
    "all three": Change(rate=0.3, dropout=0, nsp=False),
}
CORPORA = {"books": ("sst2", 5e-5), "reviews": ("nsmc", 1e-4)}  # what is fine-tuned on, and its learning rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--corpus", nargs="+", default=list(CORPORA), choices=CORPORA)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--files", type=int, help="only the first books")
    parser.add_argument("--seeds", type=int, default=3, help="of fine-tuning")
    parser.add_argument("--dtype", default="mixed_bfloat16")
    arguments = parser.parse_args()
    if not finetuning_data.DATA.is_dir():
        sys.exit("../shared/data is missing. Put the shared data next to the project's folder.")
    for corpus in arguments.corpus:
        print(f"\n{corpus}, {arguments.minutes:g} minutes each", flush=True)
        compare(arguments.folder.resolve() / corpus, corpus, arguments)


def compare(folder: Path, corpus: str, arguments: Any) -> None:
    write_data(folder, corpus, arguments.files)
    seconds = step_seconds(folder, arguments.dtype)
    task, learning_rate = CORPORA[corpus]
    lines = [f"{'':20} ms a step  steps  masked accuracy  {task} after fine-tuning"]
    for name, change in CHANGES.items():
        steps = int(60 * arguments.minutes / seconds[name])
        run = folder / "runs" / f"{name} {steps}"
        pretrain(folder, change, run, steps, arguments.dtype)
        set_dropout(run / "bert_config.json", 0.1)
        settings = {"limit": 2000, "epochs": 3, "learning_rate": learning_rate}
        scores = [
            100 * finetuning.finished(fine_tuned, str(run), folder / "scores.jsonl")["score"]
            for seed in range(arguments.seeds)
            for fine_tuned in [{"task": task, "model": "ours", "start": run.name, "seed": seed, **settings}]
        ]
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        lines.append(
            f"{name:20} {1000 * seconds[name]:9.0f} {steps:6} {accuracy(folder, run):14.2f} %  "
            f"{statistics.mean(scores):.2f} +- {spread:.2f} %"
        )
        print(lines[-1], flush=True)
    print("\n".join(["", *lines]), flush=True)


def write_data(folder: Path, corpus: str, files: int | None) -> None:
    """Write the vocabulary, the examples of each kind, and the held-out ones: 15 % masked, without pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    train, held_out, rules = corpus_files(folder, corpus, files)
    vocabulary = folder / "vocab.txt"
    if not vocabulary.exists():
        command("vocab", *train, "--size", 8000, "--output", vocabulary, *rules)
    kinds = {(change.rate, change.nsp) for change in CHANGES.values()}
    for texts, name, rate, nsp in [
        *((train, examples_name(rate, nsp), rate, nsp) for rate, nsp in sorted(kinds)),
        (held_out, "held-out", 0.15, False),
    ]:
        pairs = "--nsp" if nsp else "--no-nsp"
        options = ["--vocab", vocabulary, "--output", folder / name, "--rate", rate, pairs, *rules]
        command("examples", *texts, *options)


def corpus_files(folder: Path, corpus: str, files: int | None) -> tuple[list[Path], list[Path], list[str]]:
    """The files to learn from, those to score on, and the text rules: every ninth book, and the last tenth of films."""
    if corpus == "books":
        books = sorted((finetuning_data.DATA / "books").glob("*.md"))[:files]
        return [book for number, book in enumerate(books) if number % 9], books[::9], []
    films = (finetuning_data.DATA / "ko" / "reviews.txt").read_text(encoding="utf-8").split("\n\n")
    parts = {"train.txt": films[: len(films) * 9 // 10], "held-out.txt": films[len(films) * 9 // 10 :]}
    for name, part in parts.items():
        (folder / name).write_text("\n\n".join(part), encoding="utf-8")
    return [folder / "train.txt"], [folder / "held-out.txt"], ["--keep-accents"]


def examples_name(rate: float, nsp: bool) -> str:
    return f"examples-{rate}-{'pairs' if nsp else 'sentences'}"


def step_seconds(folder: Path, dtype: str) -> dict[str, float]:
    """The median time of a step of each recipe, of several short runs in turn."""
    found: dict[str, list[float]] = {name: [] for name in CHANGES}
    for number in range(ROUNDS):
        for name, change in CHANGES.items():
            run = folder / "timing" / f"{name} {number}"
            pretrain(folder, change, run, STEPS, dtype)
            lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
            found[name] += [line["seconds_per_step"] for line in lines if "seconds_per_step" in line][1:]
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def pretrain(folder: Path, change: Change, run: Path, steps: int, dtype: str) -> None:
    """Pretrain as the command line does; a run that is finished stays as it is."""
    data = folder / examples_name(change.rate, change.nsp)
    recipe = ["--recipe", "tiny-laptop", "--size", "mini", "--batch-size", 32, "--learning-rate", 1e-3]
    command("pretrain", "--data", data, "--output", run, "--steps", steps, "--dropout", change.dropout, *recipe,
            "--dtype", dtype, "--strategy", "one")  # fmt: skip


def set_dropout(config: Path, rate: float) -> None:
    """All are fine-tuned with the same dropout."""
    data = json.loads(config.read_text())
    config.write_text(json.dumps(data | {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}))


def accuracy(folder: Path, run: Path) -> float:
    """The share of the masked pieces of the held-out text that are right, in percent."""
    printed = command("evaluate", run, "--data", folder / "held-out")
    return 100 * float(dict(line.split("\t") for line in printed.splitlines() if "\t" in line)["masked_lm_accuracy"])


def command(*words: Any) -> str:
    """What a command of keras-bert prints."""
    line = [sys.executable, "-m", "keras_bert_cli", *map(str, words)]
    done = subprocess.run(line, env={**os.environ, "KERAS_BACKEND": "tensorflow"}, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"keras-bert {' '.join(map(str, words))} failed; its output is above.")
    return done.stdout


if __name__ == "__main__":
    main()
