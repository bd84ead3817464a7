"""An independent oracle: google-research/bert's tokenization.py by its rules, a character at a time, with offsets.

A text is a list of (character, index in the text as given) from the first step to the last. Python's own `unicodedata`
decides what a character is, so strings for it must hold only characters that Python 3.11's table (Unicode 14) assigns.
"""

import unicodedata
from functools import cache

Marked = list[tuple[str, int]]
Piece = tuple[str, int, int]

CJK = [
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
]


def tokenize(text: str, vocabulary: set[str], **switches: bool) -> list[list[Piece]]:
    """The words of a text, each as its pieces with their first character and the one past the last."""
    return [pieces(word, vocabulary) for word in words(text, **switches)]


@cache  # three vocabularies ask for the words of the same texts
def words(text: str, lowercase: bool, strip_accents: bool, split_cjk: bool = True) -> list[Marked]:
    marked = clean(list(zip(text, range(len(text)), strict=True)))
    if split_cjk:
        marked = [part for pair in marked for part in ([(" ", -1), pair, (" ", -1)] if is_cjk(pair[0]) else [pair])]
    found = []
    for word in split(marked):
        if lowercase:
            word = lower(word)
        if strip_accents:
            word = [pair for pair in decompose(word) if unicodedata.category(pair[0]) != "Mn"]
        found += split_on_punctuation(word)
    return found


def clean(text: Marked) -> Marked:
    kept = [pair for pair in text if not (pair[0] in "\0\ufffd" or is_control(pair[0]))]
    return [(" ", index) if is_space(character) else (character, index) for character, index in kept]


def split(text: Marked) -> list[Marked]:
    """As str.split(), whose white space is wider than Google's is_whitespace."""
    found: list[Marked] = [[]]
    for pair in text:
        if pair[0].isspace():
            found.append([])
        else:
            found[-1].append(pair)
    return [word for word in found if word]


def lower(word: Marked) -> Marked:
    """As str.lower() of the whole word, in which a sigma looks at its neighbours."""
    lowered = iter("".join(character for character, _ in word).lower())
    return [(next(lowered), index) for character, index in word for _ in character.lower()]


def decompose(word: Marked) -> Marked:
    """Normalization form D by its definition: decompose each, then sort each run of marks by class, stably."""
    parts = [(part, index) for character, index in word for part in unicodedata.normalize("NFD", character)]
    done, run = [], []
    for pair in [*parts, ("", -1)]:
        if pair[0] and unicodedata.combining(pair[0]):
            run.append(pair)
        else:
            done += [*sorted(run, key=lambda mark: unicodedata.combining(mark[0])), pair]
            run = []
    return done[:-1]


def split_on_punctuation(word: Marked) -> list[Marked]:
    found: list[Marked] = []
    begin = True
    for pair in word:
        if is_punctuation(pair[0]):
            found.append([pair])
            begin = True
        elif begin:
            found.append([pair])
            begin = False
        else:
            found[-1].append(pair)
    return found


def pieces(word: Marked, vocabulary: set[str]) -> list[Piece]:
    text = "".join(character for character, _ in word)
    indices = [index for _, index in word]
    if len(text) > 200:
        return [("[UNK]", min(indices), max(indices) + 1)]
    found, begin = [], 0
    while begin < len(text):
        prefix = "##" if begin else ""
        end = next((end for end in range(len(text), begin, -1) if prefix + text[begin:end] in vocabulary), None)
        if end is None:
            return [("[UNK]", min(indices), max(indices) + 1)]
        found.append((prefix + text[begin:end], min(indices[begin:end]), max(indices[begin:end]) + 1))
        begin = end
    return found


@cache
def is_space(character: str) -> bool:
    return character in " \t\n\r" or unicodedata.category(character) == "Zs"


@cache
def is_control(character: str) -> bool:
    return character not in "\t\n\r" and unicodedata.category(character) in ("Cc", "Cf")


@cache
def is_cjk(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in CJK)


@cache
def is_punctuation(character: str) -> bool:
    point = ord(character)
    ascii_symbol = 33 <= point <= 47 or 58 <= point <= 64 or 91 <= point <= 96 or 123 <= point <= 126
    return ascii_symbol or unicodedata.category(character).startswith("P")
