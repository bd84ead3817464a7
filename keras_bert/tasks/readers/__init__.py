"""Readers: files of labelled texts, pairs, tags and questions in, columns out."""

from keras_bert.tasks.readers.columns import read_choices, read_labels, read_scores, read_texts
from keras_bert.tasks.readers.conll import read_conll, read_conllu, read_klue_ner
from keras_bert.tasks.readers.reading import TABLE_FIELDS, TABLES, Reading
from keras_bert.tasks.readers.row_stream import RowStream
from keras_bert.tasks.readers.rows import Rows, tab_columns
from keras_bert.tasks.readers.squad import read_squad
