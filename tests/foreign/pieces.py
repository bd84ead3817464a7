"""The pieces of a text, with a vocabulary that a foreign suite has."""

from keras_bert import Preprocessor, Vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def preprocessor(tokens, **rules):
    """A preprocessor with these pieces, in this order; the special tokens that they lack are added at the end."""
    return Preprocessor(Vocabulary([*tokens, *(token for token in SPECIAL if token not in tokens)]), **rules)


def words(text, expected, **rules):
    """The words of a text, if each expected word is a piece: another word would become [UNK]."""
    return preprocessor(list(dict.fromkeys(expected)), **rules).tokens(text)
