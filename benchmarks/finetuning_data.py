"""The real data of benchmarks/finetuning.py, as columns: what is learned, and what it is scored on."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.tasks import readers

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Dataset:
    """kind: classify, regress, tag or answer. score: the name of the figure that people quote."""

    kind: str
    korean: bool
    score: str
    read: Callable[[], tuple[Any, Any]]
    seq_length: int = 128


def _sst2() -> tuple[Any, Any]:
    return tuple(readers.read_labels(DATA / f"en/sst2.{part}.txt", format="label-text") for part in ("train", "dev"))


def _stsb() -> tuple[Any, Any]:
    return tuple(_fifths(readers.read_scores(DATA / f"en/stsb.{part}.csv", (0, 1), 2)) for part in ("train", "dev"))


def _korsts() -> tuple[Any, Any]:
    columns = ("sentence1", "sentence2")
    return tuple(_fifths(readers.read_scores(DATA / f"ko/korsts.{part}.tsv", columns)) for part in ("train", "dev"))


def _wnut17() -> tuple[Any, Any]:
    return tuple(readers.read_conll(DATA / f"en/wnut17.{part}.conll") for part in ("train", "dev"))


def _xquad() -> tuple[Any, Any]:
    return _parted(readers.read_squad(DATA / "en/xquad.en.json"), 952)  # four fifths; no context is on both sides


def _nsmc() -> tuple[Any, Any]:
    return _parted(readers.read_labels(DATA / "ko/nsmc20k.tsv", "document", "label", skip_empty=True), 15_000)


def _klue_ner() -> tuple[Any, Any]:
    return _parted(readers.read_klue_ner(DATA / "ko/klue-ner.dev.tsv"), 4000)


def _kornli() -> tuple[Any, Any]:
    columns = ("sentence1", "sentence2")
    return tuple(readers.read_labels(DATA / f"ko/kornli.{part}.tsv", columns, "gold_label") for part in ("dev", "test"))


DATASETS = {
    "sst2": Dataset("classify", False, "accuracy", _sst2),
    "stsb": Dataset("regress", False, "spearman", _stsb),
    "wnut17": Dataset("tag", False, "entity_f1", _wnut17),
    "xquad": Dataset("answer", False, "f1", _xquad, seq_length=256),
    "nsmc": Dataset("classify", True, "accuracy", _nsmc),
    "kornli": Dataset("classify", True, "accuracy", _kornli),
    "korsts": Dataset("regress", True, "spearman", _korsts),
    "klue-ner": Dataset("tag", True, "entity_f1", _klue_ner),
}


@dataclass(frozen=True)
class Columns:
    """x and y as `fit` takes them."""

    x: Any
    y: list[Any]

    def first(self, count: int | None) -> "Columns":
        x = tuple(column[:count] for column in self.x) if isinstance(self.x, tuple) else self.x[:count]
        return Columns(x, self.y[:count])

    @property
    def pair(self) -> tuple[list[Any], list[Any] | None]:
        """Both columns of texts, the second None where there is one."""
        return self.x if isinstance(self.x, tuple) else (self.x, None)


def read(name: str, rows: int | None) -> tuple[Columns, Columns]:
    """What is learned, the first `rows` of it, and what it is scored on."""
    train, test = (Columns(part.x, part.y) for part in DATASETS[name].read())
    return train.first(rows), test


def labels_of(dataset: Dataset, train: Columns, test: Columns) -> list[str]:
    """The labels of both parts, O first."""
    if dataset.kind == "classify":
        return sorted({*train.y, *test.y})
    rows = itertools.chain(train.y, test.y)
    if isinstance(train.x[0], str):
        types = sorted({entity[2] for row in rows for entity in row})
        return ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]
    return sorted({tag for row in rows for tag in row}, key=lambda tag: (tag != "O", tag))


def _fifths(rows: Any) -> Columns:
    return Columns(rows.x, [score / 5 for score in rows.y])


def _parted(rows: Any, count: int) -> tuple[Columns, Columns]:
    columns = Columns(rows.x, rows.y)
    train = columns.first(count)
    if isinstance(rows.x, tuple):
        return train, Columns(tuple(column[count:] for column in rows.x), rows.y[count:])
    return train, Columns(rows.x[count:], rows.y[count:])
