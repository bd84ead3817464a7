"""Google's BasicTokenizer and WordpieceTokenizer in plain Python: the rules of `normalizer.py` and `wordpiece.py`."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from keras_bert.text.character_sets import (
    ACCENTS,
    CASED,
    CJK,
    DROPPED,
    IGNORABLE,
    PUNCTUATION,
    SPACES,
    STAND_INS,
    YOUNG_MARKS,
    CharacterSet,
    RuleTable,
    combining_class,
    finder,
)
from keras_bert.text.wordpiece import MAX_CHARACTERS

_CASED, _IGNORABLE, _ACCENTS = CharacterSet(CASED), CharacterSet(IGNORABLE), CharacterSet(ACCENTS)
_LONG = 256  # characters; Python's NFD sorts a run of marks by insertion, which would take time in a longer chunk

Marked = list[tuple[str, int]]  # characters, each with the place in the chunk that it came from


class PlainNormalizer:
    """Texts to chunks, which white space separates, and chunks to words; see `normalizer.Normalizer`.

    >>> normalizer = PlainNormalizer(lowercase=True, strip_accents=True, split_cjk=True)
    >>> normalizer.words(normalizer.chunks(normalizer.decode("Héllo, 中!")))
    [['hello', ','], ['中', '!']]
    """

    def __init__(
        self, lowercase: bool, strip_accents: bool, split_cjk: bool, stand_ins: Mapping[str, str] | None = None
    ) -> None:
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.stand_ins = stand_ins or {}
        dropped = CharacterSet(DROPPED + STAND_INS * (not self.stand_ins))
        spaces = CharacterSet(SPACES)
        accents = CharacterSet(ACCENTS * strip_accents)
        by_itself = CharacterSet(PUNCTUATION + CJK * split_cjk + STAND_INS * bool(self.stand_ins))

        def clean(point: int) -> str | None:
            one = chr(point)
            return None if one in dropped else " " if one in spaces else one

        def separate(point: int) -> str | None:
            one = chr(point)
            return None if one in accents else f" {one} " if one in by_itself else one

        # `str.translate` asks a table about each character, which takes longer than to look for one that changes.
        self.cleaned, self._separated = RuleTable(clean), RuleTable(separate)
        self._may_clean = finder(dropped, spaces)
        self._may_separate = finder(accents, by_itself)
        self._special = re.compile("|".join(map(re.escape, sorted(self.stand_ins, key=len, reverse=True))))

    def decode(self, text: bytes) -> str:
        """The text without invalid UTF-8, and with the stand-in of each special token in its place."""
        found = text.decode("utf-8", "ignore") if isinstance(text, bytes) else text
        if self.stand_ins:
            # A stand-in that is part of the given text is a control character, and dropped like any other.
            found = re.sub(f"[{STAND_INS}]", "\x7f", found)
            found = self._special.sub(lambda token: self.stand_ins[token[0]], found)
        return found

    def chunks(self, text: str) -> list[str]:
        """The chunks of a decoded text."""
        return (text.translate(self.cleaned) if self._may_clean(text) else text).split()

    def words(self, chunks: Sequence[str]) -> list[Sequence[str]]:
        """The words of each chunk."""
        if not chunks:
            return []
        text = "\n".join(chunks)
        if self.lowercase:
            text = _lower(text)
        if self.strip_accents and not text.isascii():
            short = all(len(chunk) <= _LONG or chunk.isascii() for chunk in chunks) and YOUNG_MARKS.isdisjoint(text)
            text = unicodedata.normalize("NFD", text) if short else "".join(one for one, _ in _decompose(text))
        lines = text.split("\n")
        return [line.translate(self._separated).split() if self._may_separate(line) else (line,) for line in lines]

    def origins(self, chunk: str) -> Sequence[int]:
        """For each character of the words of a chunk, the place in the chunk that it came from."""
        if chunk.isascii():
            return range(len(chunk))
        places = [place for place, one in enumerate(chunk) for _ in (one.lower() if self.lowercase else one)]
        if not self.strip_accents:
            return places
        marked = _decompose(_lower(chunk) if self.lowercase else chunk)
        return [places[place] for one, place in marked if one not in _ACCENTS]


def _lower(text: str) -> str:
    """As `str.lower`, with Σ as ς after a cased letter unless one follows, by the tables of the graph."""
    if "Σ" not in text:
        return text.lower()
    letters = list(text)
    after = [False] * len(text)  # whether a cased letter follows
    cased = False
    for place in reversed(range(len(text))):
        after[place] = cased
        if text[place] not in _IGNORABLE:
            cased = text[place] in _CASED
    cased = False
    for place, one in enumerate(text):
        if one == "Σ":
            letters[place] = "ς" if cased and not after[place] else "σ"
        if one not in _IGNORABLE:
            cased = one in _CASED
    return "".join(letters).lower()


def _decompose(text: str) -> Marked:
    """Normalization form D by its definition: each character by itself, then each run of marks sorted by class."""
    done: Marked = []
    run: Marked = []
    for place, one in enumerate(text):
        for part in unicodedata.normalize("NFD", one):
            if combining_class(part):
                run.append((part, place))
                continue
            if run:
                done += sorted(run, key=lambda mark: combining_class(mark[0]))
                run = []
            done.append((part, place))
    return done + sorted(run, key=lambda mark: combining_class(mark[0]))


class PlainWordPiece:
    """Splits a word into the longest pieces from left to right; see `wordpiece.WordPiece`.

    >>> wordpiece = PlainWordPiece(["[UNK]", "em", "##bed", "##ding"])
    >>> wordpiece("embedding"), wordpiece("other")
    ((1, 2, 3), (0,))
    >>> wordpiece.ends("embedding", (1, 2, 3)), wordpiece.ends("other", (0,))
    ([2, 5, 9], [5])
    """

    def __init__(
        self, tokens: Sequence[str], stand_ins: Mapping[str, str] | None = None, most: int = MAX_CHARACTERS
    ) -> None:
        self._most = most
        stand_ins = stand_ins or {}
        taken = {*stand_ins.values()}  # no normalized word has these control characters from the text itself
        pieces = {stand_ins.get(token, token): id for id, token in enumerate(tokens) if token not in taken}
        self._first = {piece: id for piece, id in pieces.items() if piece}
        self._inner = {piece[2:]: id for piece, id in pieces.items() if len(piece) > 2 and piece.startswith("##")}
        self._unknown = (pieces[stand_ins.get("[UNK]", "[UNK]")],)
        self._sizes = [len(stand_ins.get(token, token)) for token in tokens]
        self._first_lengths, self._inner_lengths = _lengths(self._first), _lengths(self._inner)

    def __call__(self, word: str) -> tuple[int, ...]:
        """The ids of the pieces of a word."""
        size = len(word)
        if size > self._most:
            return self._unknown
        ids, begin, known, lengths = [], 0, self._first, self._first_lengths
        while begin < size:
            left = size - begin
            for length in lengths.get(word[begin], ()):
                if length <= left and (id := known.get(word[begin : begin + length])) is not None:
                    break
            else:
                return self._unknown
            begin += length
            ids.append(id)
            known, lengths = self._inner, self._inner_lengths
        return tuple(ids)

    def ends(self, word: str, ids: tuple[int, ...]) -> list[int]:
        """The character after the last one of each piece of a word."""
        if ids == self._unknown:
            return [len(word)]
        return list(accumulate(self._sizes[id] - 2 * (number > 0) for number, id in enumerate(ids)))


def _lengths(pieces: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """By their first character, the lengths that pieces have, the longest first."""
    found: dict[str, set[int]] = {}
    for piece in pieces:
        found.setdefault(piece[0], set()).add(len(piece))
    return {first: tuple(sorted(lengths, reverse=True)) for first, lengths in found.items()}
