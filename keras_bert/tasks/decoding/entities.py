"""Entities and the labels of the words that hold them: BIO, BIOES (BILOU too) and IO."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

BEGIN, END = "BSU", "ESLU"  # letters of a first and of a last word


@dataclass(frozen=True)
class Entity:
    """A part of a text, text[start:end], what it is, and how sure that is."""

    type: str
    text: str
    start: int
    end: int
    score: float


class Run(NamedTuple):
    """Words start to end, without the last, and what they are together."""

    type: str
    start: int
    end: int


def has_entities(labels: Iterable[str]) -> bool:
    """Whether these labels tell entities, O, B-PER, I-PER and the like, and not a tag for each word.

    >>> has_entities(("O", "B-PER", "I-PER")), has_entities(("NOUN", "VERB"))
    (True, False)
    """
    others = [label for label in labels if label != "O"]
    return bool(others) and all(label[0] in "BIESLU" and label[1:2] == "-" and label[2:] for label in others)


def stray_label(labels: Iterable[str]) -> str | None:
    """The first label that is no tag of an entity among some that are B- or I-; None if there is none.

    >>> stray_label(("O", "B-PER", "I-PER", "VERB"))
    'VERB'
    """
    labels = list(labels)
    if not any(label[:2] in ("B-", "I-") and label[2:] for label in labels):
        return None
    return next((label for label in labels if label != "O" and not has_entities([label])), None)


def encode(runs: Iterable[Run], count: int, labels: Sequence[str]) -> list[str]:
    """The labels of `count` words in a row that hold these entities, in the scheme of `labels`.

    >>> encode([Run("PER", 0, 2), Run("LOC", 3, 4)], 4, labels=("O", "B-PER", "I-PER", "B-LOC"))
    ['B-PER', 'I-PER', 'O', 'B-LOC']
    """
    letters = {label[0] for label in labels if label != "O"}

    def letter(*wanted: str) -> str:
        return next((one for one in wanted if one in letters), "I")

    found = ["O"] * count
    for kind, start, end in runs:
        for place in range(start, end):
            if end - start == 1:
                first = letter("S", "U", "B")
            elif place == start:
                first = letter("B")
            else:
                first = letter("E", "L") if place == end - 1 else "I"
            found[place] = f"{first}-{kind}"
    return found
