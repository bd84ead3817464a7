"""How the files of a run are read: one record for training, evaluation and prediction alike."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from keras_bert.tasks.readers.columns import read_choices, read_labels, read_scores
from keras_bert.tasks.readers.conll import read_conll, read_conllu, read_klue_ner
from keras_bert.tasks.readers.rows import Rows
from keras_bert.tasks.readers.squad import read_squad
from keras_bert.tasks.readers.table import Column

TABLES = ("tsv", "csv", "jsonl", "label-text")
FORMATS = {  # by kind of task, the default first where a suffix does not tell
    "classify": TABLES,
    "regress": TABLES,
    "choose": TABLES,
    "tag": ("conll", "conllu", "klue-ner"),
    "answer": ("squad", "korquad"),
}


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a file holds and where; the fields are the options of the command line."""

    format: str | None = None  # None: by the suffix, or the first of its kind's in FORMATS
    text: tuple[Column, ...] = ("text",)  # one column, two for pairs; for choose the prompt
    label: Column = "label"  # of the label, the score, the right choice
    choices: tuple[Column, ...] = ()
    separator: str | None = None  # between the labels of one text; None: it has one label, or a JSONL list of them
    scale: float = 1.0  # what scores are divided by
    header: bool | None = None  # None: where a column is named
    skip_empty: bool = False

    def __post_init__(self) -> None:
        for name in ("text", "choices"):  # lists, where they come from JSON
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.scale <= 0:
            raise ValueError(f"Scores are divided by a scale above 0. Received: scale={self.scale}")
        if self.separator == "":
            raise ValueError("A separator must be a character at least. Leave it out for one label. Received: ''")


def read(kind: str, path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
    """The rows of a file for a kind of task; `labels=False` reads only what a model is asked."""
    format = reading.format
    if format is not None and format not in FORMATS[kind]:
        raise ValueError(
            f"A file for {kind} must be of the format {', '.join(FORMATS[kind])}. Name one of these. "
            f"Received: format={format!r}"
        )
    if kind == "answer":
        return read_squad(path, answers=labels)
    if kind == "tag":
        return _tagged(path, format, labels)
    options: dict[str, Any] = {"format": format, "header": reading.header, "skip_empty": reading.skip_empty}
    label = reading.label if labels else None
    if kind == "choose":
        if len(reading.text) != 1 or len(reading.choices) < 2:
            raise ValueError(
                "choose needs one column with the prompt (--text) and two or more with choices (--choice, each); in "
                f"Python, read_choices(path, prompt, choices). Received: text={reading.text}, choices={reading.choices}"
            )
        return read_choices(path, reading.text[0], reading.choices, label, **options)
    if len(reading.text) > 2:
        raise ValueError(f"A text is one column, a pair is two. Received: text={reading.text}")
    text = reading.text if len(reading.text) == 2 else reading.text[0]
    if kind == "regress":
        return read_scores(path, text, label, scale=reading.scale, **options)
    return read_labels(path, text, label, separator=reading.separator, **options)


def _tagged(path: str | os.PathLike, format: str | None, labels: bool) -> Rows:
    if format == "klue-ner":
        return read_klue_ner(path)
    if format == "conllu" or (format is None and Path(path).suffix.lower() == ".conllu"):
        return read_conllu(path, tag="upos" if labels else None)
    return read_conll(path, tag=-1 if labels else None)
