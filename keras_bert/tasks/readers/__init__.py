"""Files in, columns out: readers of labelled texts, pairs, tags and questions."""

from keras_bert.tasks.readers.columns import read_choices, read_labels, read_scores
from keras_bert.tasks.readers.conll import read_conll, read_conllu, read_klue_ner
from keras_bert.tasks.readers.read import FORMATS, Reading, read
from keras_bert.tasks.readers.rows import Rows
from keras_bert.tasks.readers.squad import read_squad

__all__ = [
    "FORMATS",
    "Reading",
    "Rows",
    "read",
    "read_choices",
    "read_conll",
    "read_conllu",
    "read_klue_ner",
    "read_labels",
    "read_scores",
    "read_squad",
]
