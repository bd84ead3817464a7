"""What a vocabulary itself proves about how text was cut, for formats that do not say."""

import logging
import unicodedata

from keras_bert.text.vocabulary import Vocabulary
from keras_bert.weights.checkpoint import TextRules

logger = logging.getLogger("keras_bert")


def rules_of(vocabulary: Vocabulary, source: str) -> TextRules:
    """The rules under which the pieces of this vocabulary can be found at all.

    A piece with a capital letter is never found in lower-cased text, and a Hangul syllable never in text whose accents
    are stripped, since NFD parts it into letters. The log says what was concluded.
    """
    pieces = [piece for piece in vocabulary.tokens if not piece.startswith("[")]
    capital = next((piece for piece in pieces if piece.isascii() and piece != piece.lower()), None)
    if capital is not None:
        logger.info("%s: taken as cased, since its vocabulary has %r.", source, capital)
        return TextRules(lowercase=False)
    if keeps_accents(vocabulary):
        logger.info("%s: taken as uncased with accents kept, since its vocabulary has letters with accents.", source)
        return TextRules(lowercase=True, strip_accents=False)
    logger.info("%s: taken as uncased, since its vocabulary has no capital letter.", source)
    return TextRules()


def keeps_accents(vocabulary: Vocabulary) -> bool:
    """Whether it has pieces that NFD would take apart, such as Hangul syllables or letters with accents."""
    return any(unicodedata.normalize("NFD", piece) != piece for piece in vocabulary.tokens if not piece.isascii())
