"""What a SentenceEmbedder learns from each kind of rows, and with each loss.

    python benchmarks/sentence_losses.py                           an hour
    python benchmarks/sentence_losses.py --limit 64 --seeds 1      minutes, to see that everything runs

Korean rows start from a random BERT-mini at 5e-4, and the score is Spearman's correlation on KorSTS's development file:
the scored pairs of KorSTS's training file; KorNLI's entailments as queries and positives, and its contradictions as
their negatives; and the sentences of KorNLI as texts without labels, for one epoch (SimCSE). "which is entailed" learns
from the same pairs of KorNLI's test file; the score is the share of the premises of its development file that are
nearer to what they entail than to what contradicts them. The labels are those of the first 2,000 rows of SST-2, from
MiniLM at 5e-5; the score is the share of the rows of its development file whose nearest neighbour has the same label.
Four epochs, and batches of 32. Each training runs in a process of its own. Needs ../shared/data. With --results FILE,
each training is stored, and the same command does not repeat it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import finetuning
import finetuning_data
from sentence_embeddings import BATCH, entailments, in_process, summary

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as `keras-bert` does

RATES = {"korsts": 5e-4, "kornli": 5e-4, "sst2": 5e-5}
ROWS = {  # the data, the rows, the loss, and perhaps the pooling
    "scored pairs, cosine": ("korsts", "scores", "cosine"),
    "scored pairs, cosent": ("korsts", "scores", "cosent"),
    "scored pairs, cosine, [CLS]": ("korsts", "scores", "cosine", "cls"),
    "scored pairs, cosine, maximum": ("korsts", "scores", "cosine", "max"),
    "pairs": ("korsts", "pairs", "ranking"),
    "pairs, symmetric": ("korsts", "pairs", "symmetric"),
    "pairs that have negatives": ("korsts", "half", "ranking"),
    "the same, with the negatives": ("korsts", "negatives", "ranking"),
    "which is entailed": ("kornli", "half", "ranking"),
    "which is entailed, with negatives": ("kornli", "negatives", "ranking"),
    "texts (SimCSE)": ("korsts", "texts", "ranking"),
    "labels, triplet": ("sst2", "labels", "triplet"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(ROWS), choices=ROWS, metavar="ROWS")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="train on this many rows")
    parser.add_argument("--results", type=Path, help="a JSONL file of results, with which the same command resumes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only:
            data, kind, loss, *pooling = ROWS[name]
            run = {"data": data, "rows": kind, "loss": loss, "limit": arguments.limit}
            run |= {"pooling": pooling[0]} if pooling else {}
            trained = partial(_trained, run, finetuning_data.start(data, None, folder), arguments.results)
            before = trained(0, 0)["score"]
            after = [trained(seed, 1 if kind == "texts" else 4) for seed in range(arguments.seeds)]
            print(f"{name:33} from {100 * before:6.2f} to {summary(after)}", flush=True)


def _trained(run: dict[str, Any], start: str, results: Path | None, seed: int, epochs: int) -> dict[str, Any]:
    """The score after so many epochs, stored or measured in a new process."""
    run = {**run, "seed": seed, "epochs": epochs}
    return finetuning.stored(run, results, partial(in_process, "sentence_losses", {**run, "start": start}))


def worker() -> None:
    """Train and score as the argument says, and print the result as JSON."""
    run = json.loads(sys.argv[-1])
    import keras

    import keras_bert
    from keras_bert.tasks.losses import MultipleNegativesRanking

    keras.utils.set_random_seed(run["seed"])
    task = keras_bert.SentenceEmbedder(keras_bert.load(run["start"]), run.get("pooling"))
    x, y = _columns(run["data"], run["rows"], run["limit"])
    loss = MultipleNegativesRanking(symmetric=True) if run["loss"] == "symmetric" else run["loss"]
    recipe = keras_bert.FinetuneRecipe(learning_rate=RATES[run["data"]], epochs=run["epochs"] or 1, batch_size=BATCH)
    began = time.perf_counter()
    if run["epochs"]:
        task.fit(x, y, loss=loss, recipe=recipe, seed=run["seed"], verbose=0)
    seconds = time.perf_counter() - began
    print(json.dumps({"score": float(_score(task, run)), "seconds": seconds}), flush=True)


def _score(task: Any, run: dict[str, Any]) -> float:
    """The score that the documentation of this script describes, on rows that were not trained on."""
    from keras_bert.tasks.metrics import number_scores

    if run["data"] == "kornli":
        held_out, _ = finetuning_data.DATASETS["kornli"].read()
        premises, entailed, contrary = map(task.embed, _triples([held_out]))
        return ((premises * entailed).sum(-1) > (premises * contrary).sum(-1)).mean()
    dev = finetuning_data.read(run["data"], None)[1]
    if run["rows"] == "labels":
        return task.evaluate(dev.x, dev.y, return_dict=True, verbose=0)["neighbour_accuracy"]
    first, second = map(task.embed, dev.x)
    return number_scores(dev.y, (first * second).sum(-1))["spearman"]


def _columns(data: str, rows: str, limit: int | None) -> tuple[Any, Any]:
    """The columns to train on."""
    if rows in ("scores", "labels"):
        train, _ = finetuning_data.read(data, limit or (2000 if rows == "labels" else None))
        return train.x, train.y
    if rows == "pairs":
        return entailments(limit), None
    parts = finetuning_data.DATASETS["kornli"].read()
    if rows == "texts":
        found = _by_premise(parts)
        texts = [*found, *(text for others in found.values() for text in others.values())]
        return list(dict.fromkeys(texts))[:limit], None
    columns = tuple(column[:limit] for column in _triples(parts[1:] if data == "kornli" else parts))
    return columns if rows == "negatives" else columns[:2], None


def _triples(parts: Sequence[Any]) -> tuple[list[str], ...]:
    """Premises, what each of them entails, and what contradicts it."""
    rows = [
        (premise, others["entailment"], others["contradiction"])
        for premise, others in _by_premise(parts).items()
        if {"entailment", "contradiction"} <= {*others}
    ]
    return tuple(map(list, zip(*rows, strict=True)))


def _by_premise(parts: Sequence[Any]) -> dict[str, dict[str, str]]:
    """The sentences that follow each premise of KorNLI, by their label."""
    found: dict[str, dict[str, str]] = {}
    for part in parts:
        for premise, other, label in zip(*part.x, part.y, strict=True):
            found.setdefault(premise, {})[label] = other
    return found


if __name__ == "__main__":
    main()
