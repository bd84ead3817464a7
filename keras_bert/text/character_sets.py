"""The sets of characters in the rules of the tokenizer, for both engines: classes of RE2, and their members in Python.

Python's own table decides on categories, with the characters that RE2 in TensorFlow knows (Unicode 15) and Python 3.11
does not. A set has the members that RE2 finds, except for characters that only Unicode 16 and later assign.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

# For the inside of a character class of RE2: control characters (Cc, Cf) except tab and line ends, and U+FFFD.
DROPPED = r"\x00\x0b\x0c\x7f-\x{9f}\p{Cf}\x{fffd}"
STAND_INS = r"\x01-\x08\x0e-\x1f"  # more control characters, which can replace special tokens
FREE = [chr(number) for number in (*range(1, 9), *range(14, 32))]  # the same one by one
SPACES = r"\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"  # all except the ASCII ones
PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
CJK = (
    r"\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{20000}-\x{2a6df}\x{2a700}-\x{2b73f}\x{2b740}-\x{2b81f}\x{2b820}-\x{2ceaf}"
    r"\x{f900}-\x{faff}\x{2f800}-\x{2fa1f}"
)
# Unicode's Cased without Case_Ignorable, and Case_Ignorable: they decide where a sigma is final (section 3.13).
CASED = r"\p{Lu}\p{Ll}\p{Lt}\x{aa}\x{ba}\x{2160}-\x{217f}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}" + (
    r"\x{1f170}-\x{1f189}"
)
IGNORABLE = r"\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'.:\x{b7}\x{387}\x{55f}\x{5f4}\x{2018}\x{2019}\x{2024}\x{2027}" + (
    r"\x{fe13}\x{fe52}\x{fe55}\x{ff07}\x{ff0e}\x{ff1a}"
)
ACCENTS = r"\p{Mn}"
MARKS_AND_JOINERS = r"\p{Mn}\p{Me}\p{Cf}"

# Characters of Unicode 15 in these categories, which Python 3.11 (Unicode 14) does not know.
_YOUNG = {
    "Cf": r"\x{13439}-\x{1343f}",
    "Po": r"\x{11b00}-\x{11b09}\x{11f43}-\x{11f4f}",
    "Mn": r"\x{ece}\x{10efd}-\x{10eff}\x{11241}\x{11f00}\x{11f01}\x{11f36}-\x{11f3a}\x{11f40}\x{11f42}\x{13440}"
    r"\x{13447}-\x{13455}\x{1e08f}\x{1e4ec}-\x{1e4ef}",
    "Ll": r"\x{1df25}-\x{1df2a}",
    "Lm": r"\x{1e030}-\x{1e06d}\x{1e4eb}",
}
_YOUNG_CLASSES = dict.fromkeys((0x10EFD, 0x10EFE, 0x10EFF, 0x1E4EE), 220) | dict.fromkeys((0x11F41, 0x11F42), 9)
_YOUNG_CLASSES |= dict.fromkeys((0x1E08F, 0x1E4EF), 230) | dict.fromkeys((0x1E4EC, 0x1E4ED), 232)
YOUNG_MARKS = frozenset(map(chr, _YOUNG_CLASSES))

_CHARACTER = r"\\x\{[0-9a-f]+\}|\\x[0-9a-f]{2}|\\.|[^\\]"
_MEMBER = re.compile(rf"\\p\{{(\w+)\}}|({_CHARACTER})(?:-({_CHARACTER}))?")


class RuleTable(dict):
    """What a rule says about each key, found when it is first asked for."""

    def __init__(self, rule: Callable[[Any], Any]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, key: Any) -> Any:
        return self.setdefault(key, self._rule(key))


class CharacterSet:
    """The characters of a class of RE2, such as r"a-z\\p{P}".

    >>> "b" in CharacterSet(r"a-c\\p{P}"), "d" in CharacterSet(r"a-c\\p{P}"), "\u3001" in CharacterSet(r"a-c\\p{P}")
    (True, False, True)
    """

    def __init__(self, members: str) -> None:
        found = _MEMBER.findall(members)
        self._categories = tuple(name for name, *_ in found if name)
        self._ranges = [(_point(first), _point(last or first)) for name, first, last in found if not name]
        self._known = RuleTable(self._has)

    def __contains__(self, character: str) -> bool:
        return self._known[character]

    def _has(self, character: str) -> bool:
        point = ord(character)
        return any(first <= point <= last for first, last in self._ranges) or (
            bool(self._categories) and _category(character).startswith(self._categories)
        )

    def basic_members(self) -> str:
        """The members up to U+FFFF, for the inside of a character class of `re`."""
        edges = [(chr(first), chr(min(last, 0xFFFF))) for first, last in self._ranges if first <= 0xFFFF]
        ranges = [f"{re.escape(first)}-{re.escape(last)}" for first, last in edges]
        return "".join(ranges + [re.escape(_basic_characters()[name]) for name in self._categories])


def finder(*sets: CharacterSet) -> Callable[[str], object]:
    """A quick test of a text: its result is true if the text has a member of a set, or a character above U+FFFF.

    >>> may_have = finder(CharacterSet("a-c"), CharacterSet(r"\\p{P}"))
    >>> [bool(may_have(text)) for text in ("xyz", "xbz", "xyz!", "x𝒚z")]
    [False, True, True, True]
    """
    return re.compile(f"[{''.join(one.basic_members() for one in sets)}\U00010000-\U0010ffff]").search


def combining_class(character: str) -> int:
    """The class by which NFD sorts marks, 0 for other characters."""
    return _YOUNG_CLASSES.get(ord(character)) or unicodedata.combining(character)


def _point(member: str) -> int:
    if member.startswith(r"\x"):
        return int(member[2:].strip("{}"), 16)
    return ord(member[-1])


def _category(character: str) -> str:
    return _young_categories().get(character) or unicodedata.category(character)


@cache
def _basic_characters() -> dict[str, str]:
    """The characters up to U+FFFF of each category, such as "Po", and of each group of categories, such as "P"."""
    found: dict[str, list[str]] = defaultdict(list)
    for character in map(chr, range(0x10000)):
        found[_category(character)].append(character)
    for category in list(found):
        found[category[0]] += found[category]
    return {name: "".join(characters) for name, characters in found.items()}


@cache
def _young_categories() -> dict[str, str]:
    return {
        chr(point): category
        for category, members in _YOUNG.items()
        for first, last in CharacterSet(members)._ranges
        for point in range(first, last + 1)
    }
