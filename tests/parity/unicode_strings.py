"""Strings that a tokenizer can get wrong, of the characters that Python's table assigns.

Python 3.11 has Unicode 14, 3.12 and 3.13 have Unicode 15, which RE2 in TensorFlow knows as well. With Python 3.14
(Unicode 16) a difference would be no fault of the tokenizer: TensorFlow's tables decide on characters so young.
"""

import random
import unicodedata
from collections.abc import Sequence
from functools import cache

WHITE_AND_CONTROL = (
    " \t\n\r\x00\x01\x0b\x0c\x1c\x1f\x7f\x85\xa0\xad\u180e\u2003\u2028\u2029\u200b\u200d\u3000\ufeff\ufffd"
)
CASE_CONTEXT = "ΣΣΣσςΑαİıIiÌĮJ'.:’·ͅᵃⓐªⅫ"
YOUNG_CASED = "ⰯⱟꟀꟁꟐꟖꟘ𐕰𐕱𐖔𐖕𐖗࢘𐞀"


@cache
def assigned() -> list[str]:
    """Every character but surrogates."""
    return [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Cs")]


def all_blocks(length: int = 12) -> list[str]:
    """Every assigned character once, next to its neighbours."""
    characters = assigned()
    return ["".join(characters[begin : begin + length]) for begin in range(0, len(characters), length)]


def hard(count: int, pieces: Sequence[str], seed: int | str) -> list[str]:
    """Mixtures of accents, marks that move, case in context, white space, Hangul and pieces of a vocabulary."""
    draw = random.Random(seed)
    characters = assigned()
    marks, moving, cased = _tables()
    hangul = range(0xAC00, 0xD7A4)
    bases = "aeioucnAEIOUCN!#' 가Σ"
    kinds = [
        lambda: draw.choice(characters),
        lambda: draw.choice(marks),
        lambda: draw.choice(moving),
        lambda: draw.choice(cased),
        lambda: chr(draw.choice(hangul)),
        lambda: draw.choice(WHITE_AND_CONTROL),
        lambda: draw.choice(CASE_CONTEXT),
        lambda: draw.choice(YOUNG_CASED),
        lambda: draw.choice(pieces).removeprefix("##"),
        lambda: draw.choice(pieces).removeprefix("##").title(),
        lambda: draw.choice(bases) + draw.choice(marks),
        lambda: draw.choice(bases) + draw.choice(marks),
    ]
    return ["".join(draw.choice(kinds)() for _ in range(draw.randint(1, 14))) for _ in range(count)]


def long_words() -> list[str]:
    """Words round Google's limit of 200 characters, in one to four bytes a character, alone and among others."""
    words = [character * count for character in "aé한𝕏" for count in (66, 67, 199, 200, 201, 202, 800, 801)]
    return [*words, *(f"x {word} y!" for word in words), *(f"{word}!" for word in words)]


@cache
def _tables() -> tuple[list[str], list[str], list[str]]:
    """Marks, characters that leave marks that move, and those with a lower case."""
    characters = assigned()
    return (
        [c for c in characters if unicodedata.category(c)[0] == "M"],
        [c for c in characters if _leaves_moving(c)],
        [c for c in characters if c.lower() != c],
    )


def _leaves_moving(character: str) -> bool:
    return any(
        unicodedata.combining(part) and unicodedata.category(part) != "Mn"
        for part in unicodedata.normalize("NFD", character)
    )
