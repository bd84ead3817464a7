"""The scores that people report, for plain columns and as Keras metrics."""

from keras_bert.tasks.metrics.answers import answer_scores, korquad_scores
from keras_bert.tasks.metrics.classification import label_scores, multi_label_scores, number_scores
from keras_bert.tasks.metrics.confusion import F1, Matthews
from keras_bert.tasks.metrics.tagging import TokenAccuracy, span_scores, tag_scores
