"""Hangul syllables that are split into their letters, as Unicode's form NFD splits them.

They look like whole ones. A tokenizer that keeps accents does not join them, as Google's does not either. It makes
[UNK] or single letters of them. One that removes accents splits whole syllables too, so that it reads both forms alike.
"""

import logging
import re
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from keras_bert.text.rules import TextRules

logger = logging.getLogger("keras_bert")

REMEDY = 'Join them with unicodedata.normalize("NFC", text).'
# A consonant and a vowel that Unicode can join. Old syllables, which it cannot, have other letters.
_SPLIT = re.compile(r"[\u1100-\u1112][\u1161-\u1175]")
_SPLIT_IN_UTF8 = re.compile(rb"\xe1\x84[\x80-\x92]\xe1\x85[\xa1-\xb5]")
_warned: WeakSet[Any] = WeakSet()


def is_split(text: str | bytes) -> bool:
    """Whether a text, which may be in UTF-8, has split syllables.

    >>> is_split("\N{HANGUL CHOSEONG HIEUH}\N{HANGUL JUNGSEONG A}"), is_split("\N{HANGUL SYLLABLE HA}")
    (True, False)
    """
    found = _SPLIT_IN_UTF8.search(text) if isinstance(text, bytes) else _SPLIT.search(text)
    return found is not None


def warn_of_split_hangul(texts: Iterable[str | bytes], preprocessor: Any) -> None:
    """Log it, once for a preprocessor, if a text has split syllables which it does not join."""
    if preprocessor in _warned or TextRules.of(preprocessor).strips_accents or not any(map(is_split, texts)):
        return
    _warned.add(preprocessor)
    logger.warning(
        "A text has Hangul syllables that are split into letters (Unicode's NFD, as macOS writes the names of files). "
        "The model does not know them. %s", REMEDY,
    )  # fmt: skip
