"""Near-duplicates: rows that are also in the training rows, word for word or nearly so.

Two texts are equal if they have the same letters and digits in the same words, whatever their case and punctuation.
They are nearly equal if of all runs of five characters that either of them has, four fifths are in both: the Jaccard
similarity of the two sets. Rows of several texts are duplicates if each text is.

MinHash (Broder 1997) finds the candidates: of rows with a similarity of 0.8 or more, it misses fewer than one in ten
million. Each candidate is then compared exactly. Beside the rows themselves, this needs about one kilobyte for each row
that is searched for, and nothing for a training row.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

SIMILARITY = 0.8
SHINGLE = 5  # characters
LONGEST = 100_000  # characters of a text that are compared, if it is not equal
BANDS, ROWS = 32, 4  # rows are candidates if all ROWS numbers of one of the BANDS agree
CHUNK = 1024  # training rows at a time
MOST = 100  # candidates for a training row in a band: many rows of one form would take time with their square

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_NUMBERS = np.random.default_rng(0).integers(1, 2**63, (2, BANDS * ROWS), dtype="uint64") | np.uint64(1)

Row = tuple[str, ...]


class Duplicate(NamedTuple):
    """A row, the training row that it resembles, their similarity, and whether they are equal."""

    row: int
    training_row: int
    similarity: float
    equal: bool


def near_duplicates(rows: Sequence[Sequence[str]], training: Sequence[Sequence[str]]) -> list[Duplicate]:
    """The rows that are in the training rows too, each with one of those; both are columns of texts.

    >>> near_duplicates([["A good film!", "no"]], [["yes", "a good  film"]])
    [Duplicate(row=0, training_row=1, similarity=1.0, equal=True)]
    """
    if len(rows) != len(training):
        raise ValueError(
            "The training rows and the rows of the report differ in their columns. Pass the same columns of both. "
            f"Received: {len(training)} and {len(rows)} columns of texts"
        )
    same: dict[bytes, list[int]] = {}  # equal rows, by their digest
    for number, row in _normalized(rows):
        same.setdefault(_digest(row), []).append(number)
    groups = list(same.values())
    of_digest = {digest: group for group, digest in enumerate(same)}
    index = _Index(rows, [numbers[0] for numbers in groups])
    found: dict[int, tuple[int, float, bool]] = {}  # by group
    chunk: list[tuple[int, Row]] = []
    for number, row in _normalized(training):
        group = of_digest.get(_digest(row))
        if group is not None and (index.open[group] or not found[group][2]):
            found[group] = number, 1.0, True
            index.open[group] = False
        chunk.append((number, row))  # which may be near to other rows too
        if len(chunk) == CHUNK:
            index.search(chunk, found)
            chunk = []
    index.search(chunk, found)
    pairs = [(row, *match) for group, match in found.items() for row in groups[group]]
    return [Duplicate(*pair) for pair in sorted(pairs)]


class _Index:
    """The MinHash signatures of rows, and for each band the order of its keys. `open`: rows that are searched for."""

    def __init__(self, columns: Sequence[Sequence[str]], numbers: list[int]) -> None:
        self.columns = columns
        self.numbers = numbers
        self.open = np.ones(len(numbers), bool)
        self.signatures = _signatures((_row(columns, number) for number in numbers), len(numbers))
        keys = _keys(self.signatures)  # [BANDS, n]
        self.order = np.argsort(keys, axis=1).astype("int32")
        self.keys = np.take_along_axis(keys, self.order, 1)

    def search(self, chunk: list[tuple[int, Row]], found: dict[int, tuple[int, float, bool]]) -> None:
        """Adds the rows that resemble one of these numbered training rows to `found`."""
        signatures = _signatures((row for _, row in chunk), len(chunk))
        tried: set[tuple[int, int]] = set()
        for keys, order, wanted in zip(self.keys, self.order, _keys(signatures), strict=True):
            first, last = (np.searchsorted(keys, wanted, side) for side in ("left", "right"))
            for place in np.flatnonzero(last > first).tolist():
                others = order[first[place] : last[place]]
                others = others[self.open[others]][:MOST]
                # The share of equal numbers is an estimate of the similarity, to about 0.04.
                alike = (self.signatures[others] == signatures[place]).mean(1) >= SIMILARITY - 0.2
                for other in others[alike].tolist():
                    if (other, place) not in tried:
                        tried.add((other, place))
                        number, row = chunk[place]
                        similarity = min(map(_similarity, _row(self.columns, self.numbers[other]), row))
                        if similarity >= SIMILARITY:
                            found[other] = number, similarity, False
                            self.open[other] = False


def _row(columns: Sequence[Sequence[str]], number: int) -> Row:
    return tuple(normalized(column[number]) for column in columns)


def _normalized(columns: Sequence[Sequence[str]]) -> Iterator[tuple[int, Row]]:
    """The rows that have a text, with their numbers."""
    for number in range(len(columns[0])):
        if any(row := _row(columns, number)):
            yield number, row


def normalized(text: str) -> str:
    """The words of a text in one case, without punctuation; a text of only punctuation stays.

    >>> normalized("  Ｇood,  good — FILM!"), normalized("!!!")
    ('good good film', '!!!')
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"[\W_]+", " ", text).strip() or text.strip()


def _digest(row: Row) -> bytes:
    return hashlib.blake2b("\0".join(row).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _shingles(text: str) -> np.ndarray:
    """The different runs of SHINGLE characters, as sorted numbers; a shorter text is one run."""
    characters = np.frombuffer(text[:LONGEST].encode("utf-32-le", "surrogatepass"), "<u4").astype("uint64")
    characters = np.pad(characters, (0, max(0, SHINGLE - len(characters))))
    count = len(characters) - SHINGLE + 1
    runs = np.zeros(count, "uint64")
    for place in range(SHINGLE):
        runs = (runs ^ characters[place : place + count]) * _MIX
        runs ^= runs >> _SHIFT
    return np.unique(runs)


def _similarity(first: str, second: str) -> float:
    if first == second:
        return 1.0
    a, b = _shingles(first), _shingles(second)
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common)


def _signatures(rows: Iterable[Row], count: int) -> np.ndarray:
    """Of each row the smallest of its shingles under many hash functions, uint32 [n, BANDS * ROWS]."""
    found = np.full((count, BANDS * ROWS), np.iinfo("uint32").max, "uint32")
    for signature, row in zip(found, rows, strict=True):
        for number, text in enumerate(row):
            shingles = (_shingles(text) ^ np.uint64(number)) * _MIX  # those of another column are others
            shingles ^= shingles >> _SHIFT
            for start in range(0, len(shingles), CHUNK):
                hashes = shingles[start : start + CHUNK, None] * _NUMBERS[0] + _NUMBERS[1]  # [C, BANDS * ROWS]
                np.minimum(signature, (hashes >> np.uint64(32)).min(0).astype("uint32"), out=signature)
    return found


def _keys(signatures: np.ndarray) -> np.ndarray:
    """A number for each band of each signature, [BANDS, n]."""
    keys = np.zeros((len(signatures), BANDS), "uint64")
    for part in np.moveaxis(signatures.reshape(-1, BANDS, ROWS), 2, 0):  # ROWS x [n, BANDS]
        keys = (keys ^ part) * _MIX
        keys ^= keys >> _SHIFT
    return np.ascontiguousarray(keys.T)
