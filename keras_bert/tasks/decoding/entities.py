"""Entities, and the schemes in which labels of words describe them: BIO, BIOES, BILOU and IO."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from keras_bert.text_encoding import composed

BEGIN, END = "BSU", "ESLU"  # letters that only a first word, and only a last word, can have


@dataclass(frozen=True)
class Entity:
    """A part of a text, `text[start:end]`, with its type and probability."""

    type: str
    text: str
    start: int
    end: int
    score: float


class Run(NamedTuple):
    """An entity in units, words or pieces: from `start` up to but not including `end`."""

    type: str
    start: int
    end: int


def has_entities(labels: Iterable[str]) -> bool:
    """Whether these labels are of entities, such as O, B-PER and I-PER, and not a tag for each word.

    >>> has_entities(("O", "B-PER", "I-PER")), has_entities(("NOUN", "VERB"))
    (True, False)
    """
    others = [label for label in labels if label != "O"]
    return bool(others) and all(label[0] in "BIESLU" and label[1:2] == "-" and label[2:] for label in others)


def stray_label(labels: Iterable[str]) -> str | None:
    """The first label without a prefix among labels some of which have B- or I-; None if there is no such label.

    >>> stray_label(("O", "B-PER", "I-PER", "VERB"))
    'VERB'
    """
    labels = list(labels)
    if not any(label[:2] in ("B-", "I-") and label[2:] for label in labels):
        return None
    return next((label for label in labels if label != "O" and not has_entities([label])), None)


def misspelled_label(labels: Sequence[str]) -> tuple[str, str] | None:
    """A label, and how to write it, if these would be labels of entities with capital letters and hyphens.

    >>> misspelled_label(("O", "B_PER", "I_PER"))
    ('B_PER', 'B-PER')
    >>> misspelled_label(("NOUN", "VERB")) is None
    True
    """
    right = [f"{label[:1].upper()}{label[1:2].replace('_', '-')}{label[2:]}" for label in labels]
    if has_entities(labels) or not has_entities(right):
        return None
    return next((one, two) for one, two in zip(labels, right, strict=True) if one != two)


def encode(runs: Iterable[Run], count: int, labels: Sequence[str]) -> list[str]:
    """The labels of `count` successive units with these entities, in the scheme of `labels`.

    The labels of a type can lack a letter that those of another type have.

    >>> encode([Run("PER", 0, 2), Run("LOC", 3, 4)], 4, labels=("O", "B-PER", "I-PER", "B-LOC"))
    ['B-PER', 'I-PER', 'O', 'B-LOC']
    >>> encode([Run("PER", 0, 2), Run("LOC", 3, 4)], 4, labels=("O", "I-PER", "B-LOC", "I-LOC"))
    ['I-PER', 'I-PER', 'O', 'B-LOC']
    """
    of_types: dict[str, set[str]] = {}
    for label in labels:
        if label != "O":
            of_types.setdefault(label[2:], set()).add(label[0])
    of_all = set().union(*of_types.values())

    def letter(kind: str, *wanted: str) -> str:
        letters = of_types.get(kind, of_all)
        return next((one for one in wanted if one in letters), "I")

    found = ["O"] * count
    for kind, start, end in runs:
        for place in range(start, end):
            if end - start == 1:
                first = letter(kind, "S", "U", "B")
            elif place == start:
                first = letter(kind, "B")
            else:
                first = letter(kind, "E", "L") if place == end - 1 else "I"
            found[place] = f"{first}-{kind}"
    return found


def span_of(entity: Any) -> tuple[int, int, str]:
    """Start, end and type of an `Entity`, or of a tuple of these."""
    start, end, kind = (entity.start, entity.end, entity.type) if hasattr(entity, "type") else entity
    return start, end, composed(str(kind))
