"""Fonts for users' texts: matplotlib's own font has no Hangul, so other fonts of this machine are added."""

import logging
from collections.abc import Iterable

logger = logging.getLogger("keras_bert")

OWN = "DejaVu Sans"  # comes with matplotlib
BLANK = "□"


def fonts_for(texts: Iterable[str]) -> tuple[list[str], set[str]]:
    """Font families that together have the characters of the texts, and the characters that are in none.

    >>> fonts_for(["plain text"])
    (['DejaVu Sans'], set())
    """
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    def has(path: str) -> set[str]:
        return set(map(chr, FT2Font(path).get_charmap()))

    families = [OWN]
    missing = {character for text in texts for character in text if character.isprintable()}
    missing -= has(font_manager.findfont(OWN))
    if not missing:
        return families, missing
    # Not matplotlib's own list, which is cached and would miss fonts installed since.
    for path in sorted(font_manager.findSystemFonts(), key=_plainness):
        try:
            found = missing & has(path)
        except RuntimeError:  # FreeType cannot read this file
            continue
        if found and FT2Font(path).scalable:
            font_manager.fontManager.addfont(path)
            families.append(FT2Font(path).family_name)
            missing -= found
            if not missing:
                break
    if missing:
        some = "".join(sorted(missing)[:10])
        logger.warning(
            "The fonts of this machine lack %d of the characters, such as %s; they are drawn as %s. Install a font "
            "that has them, such as the package fonts-noto-cjk.",
            len(missing), some, BLANK,
        )  # fmt: skip
    return families, missing


def _plainness(path: str) -> tuple[bool, str]:
    """A sort key: upright fonts of normal weight first, judging by their names."""
    return any(word in path.lower() for word in ("bold", "italic", "oblique", "light", "thin", "black")), path
