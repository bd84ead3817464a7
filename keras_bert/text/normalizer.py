"""Google's BasicTokenizer as TensorFlow ops: from texts as given to texts whose words are separated by spaces.

The character tables of RE2 and ICU inside TensorFlow decide, whatever the version of Python. With the corrections below
they agree with Python 3.11 on every character of Unicode 14. Younger characters follow RE2 (Unicode 15) and ICU.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from keras_bert.lazy import tf
from keras_bert.text.character_sets import ACCENTS, CASED, CJK, DROPPED, FREE, IGNORABLE, PUNCTUATION, SPACES, STAND_INS

# Marks that stay in a word (category Mc, or young) but that NFD may move past another mark.
MOVING_MARKS = (
    r"\x{1715}\x{1734}\x{1b44}\x{1baa}\x{1bf2}\x{1bf3}\x{302e}\x{302f}\x{a953}\x{a9c0}\x{111c0}\x{11235}\x{1134d}"
    r"\x{113cf}\x{116b6}\x{1193d}\x{11f41}\x{16ff0}\x{16ff1}\x{1d15e}-\x{1d166}\x{1d16d}-\x{1d172}\x{1d1bb}-\x{1d1c0}"
)
_UTF8 = r"\x00-\x{d7ff}\x{e000}-\x{10ffff}"

# Letters that tf.strings.lower does not change, because its ICU knows only Unicode 13.
_YOUNG_LETTERS = [(0x2C2F, 0x2C5F), (0xA7C0, 0xA7C1), (0xA7D0, 0xA7D1), (0xA7D6, 0xA7D7), (0xA7D8, 0xA7D9)] + [
    (upper, upper + 0x27) for upper in range(0x10570, 0x10596) if upper not in (0x1057B, 0x1058B, 0x10593)
]
# Letters whose lower case depends on the machine's language in ICU: LC_ALL=tr_TR or lt_LT must not change an id.
_DOTTED_LETTERS = [(letter, letter.lower()) for letter in "İÌÍĨĮ"]

_SHORT = 4096  # bytes; in a text of this length no run of marks is long enough to take time
BLOCK = 0xC00  # characters that a table is made of at a time, so that it takes little memory


class Normalizer:
    """Cleans and lowercases texts, strips accents and puts spaces around punctuation.

    There are two steps, `decode` and `normalize`: offsets are counted in what the first one returns.

    special_tokens: pieces to keep whole in a text. Each is replaced by one control character, its stand-in.

    >>> normalizer = Normalizer(lowercase=True, strip_accents=True, split_cjk=True)
    >>> normalizer.normalize(normalizer.decode(["Héllo, 中!"])).numpy()[0].split()
    [b'hello', b',', b'\\xe4\\xb8\\xad', b'!']
    """

    def __init__(
        self, lowercase: bool, strip_accents: bool, split_cjk: bool, special_tokens: Sequence[str] = ()
    ) -> None:
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_cjk = split_cjk
        self.stand_ins = dict(zip(special_tokens, FREE, strict=False))

    def decode(self, texts: Any) -> Any:
        """The texts without invalid UTF-8, and with the stand-in of each special token in its place."""
        valid = tf.reduce_all(tf.strings.regex_full_match(texts, f"[{_UTF8}]*"))
        repair = partial(tf.strings.unicode_transcode, texts, "UTF-8", "UTF-8", errors="ignore")
        texts = tf.cond(valid, lambda: texts, repair)
        if self.stand_ins:
            # A stand-in that is part of the given text is a control character, and dropped like any other.
            texts = tf.strings.regex_replace(texts, f"[{STAND_INS}]", "\x7f")
            for token in sorted(self.stand_ins, key=len, reverse=True):
                texts = tf.strings.regex_replace(texts, re.escape(token), self.stand_ins[token])
        return texts

    def normalize(self, texts: Any) -> Any:
        """Decoded texts as words that are separated by spaces."""
        import tensorflow_text as tf_text

        alone = PUNCTUATION + CJK * self.split_cjk + STAND_INS * bool(self.stand_ins)
        rare = f"{self._dropped}{SPACES}" + f"Σ{''.join(self._letters)}" * self.lowercase
        texts = _where_any(texts, rare, self._replace_rare)  # one search, where most batches have none of these
        if self.lowercase:  # ASCII first: under LC_ALL=tr_TR the second one would turn I into a dotless ı
            texts = tf.strings.lower(tf.strings.lower(texts), encoding="utf-8")
        if self.strip_accents:
            longest = tf.reduce_max(tf.concat([[0], tf.strings.length(texts)], 0))
            texts = tf.cond(longest > _SHORT, partial(_without_long_runs_of_marks, texts), lambda: texts)
            texts = tf_text.normalize_utf8(texts, "NFD")
            texts = tf.strings.regex_replace(texts, f"{ACCENTS}+", "")
        # Google puts spaces around CJK before lowercasing. Neither lowercasing nor NFD creates or removes an ideograph,
        # so one pass does both.
        return tf.strings.regex_replace(texts, f"[{alone}]", r" \0 ")

    @property
    def _dropped(self) -> str:
        return DROPPED if self.stand_ins else DROPPED + STAND_INS

    @property
    def _letters(self) -> dict[str, str]:
        """The letters that are lowercased before `tf.strings.lower`."""
        letters = {chr(upper): chr(lower) for upper, lower in _YOUNG_LETTERS}
        # Stripping accents removes every dot that a language adds or keeps.
        return letters if self.strip_accents else letters | dict(_DOTTED_LETTERS)

    def _replace_rare(self, texts: Any) -> Any:
        def lower_letters(texts: Any) -> Any:
            for upper, lower in self._letters.items():
                texts = tf.strings.regex_replace(texts, upper, lower)
            return texts

        def lower_rest(texts: Any) -> Any:
            return _where_any(_lower_sigma(texts), letters, lower_letters)

        texts = tf.strings.regex_replace(texts, f"[{self._dropped}]+", "")
        texts = tf.strings.regex_replace(texts, f"[{SPACES}]", " ")
        letters = "".join(self._letters)
        return _where_any(texts, f"Σ{letters}", lower_rest) if self.lowercase else texts


def _lower_sigma(texts: Any) -> Any:
    """Σ as ς after a cased letter unless one follows, otherwise as σ. ICU's own rule ends with Unicode 13."""
    final = f"([{CASED}][{IGNORABLE}]*)Σ([{IGNORABLE}]*(?:[^{CASED}{IGNORABLE}]|$))"
    return tf.strings.regex_replace(tf.strings.regex_replace(texts, final, r"\1ς\2"), "Σ", "σ")


def _without_long_runs_of_marks(texts: Any) -> Any:
    """Texts that become the same words, in which NFD takes linear time: it sorts each run of marks by insertion.

    Accents can be removed before NFD, because the other marks keep their order. More than 200 other marks make a word
    that is too long to be looked up, so their order does not matter: U+034F, which is removed later, splits the run.
    """
    texts = tf.strings.regex_replace(texts, f"[{_sorted_accents()}]+", "")
    return tf.strings.regex_replace(texts, f"[{MOVING_MARKS}]{{200}}", "\\0\u034f")


@cache
def _sorted_accents() -> str:
    """The accents that NFD sorts. It moves each of them in front of U+0345, whose place is last."""
    import tensorflow_text as tf_text

    def in_block(first: int) -> str:
        characters = single_characters(tf.range(first, first + BLOCK))
        characters = tf.boolean_mask(characters, tf.strings.regex_full_match(characters, ACCENTS))
        behind, alone = (tf_text.normalize_utf8(before + characters, "NFD") for before in ("\u0345", ""))
        return tf.strings.reduce_join(tf.boolean_mask(characters, behind == alone + "\u0345")).numpy().decode()

    with tf.init_scope(), tf.device("CPU:0"):
        return "".join(map(in_block, range(0, 0x20000, BLOCK))) + "\u0345"


def single_characters(points: Any) -> Any:
    """Each code point as a text of its own. `points[:, None]` would make a Python number of each."""
    splits = tf.range(tf.size(points) + 1)
    return tf.strings.unicode_encode(tf.RaggedTensor.from_row_splits(points, splits, validate=False), "UTF-8")


def _where_any(texts: Any, characters: str, change: Callable[[Any], Any]) -> Any:
    """The changed batch if any text has one of these rare characters, otherwise the batch."""
    without = tf.reduce_all(tf.strings.regex_full_match(texts, f"[^{characters}]*"))
    return tf.cond(without, lambda: texts, lambda: change(texts))
