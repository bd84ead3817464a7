"""Pictures of attention, of text vectors, of position embeddings, and of the course of a training."""

from keras_bert.pictures.attention import attention_page
from keras_bert.pictures.curves import draw_curves
from keras_bert.pictures.embeddings import draw_embeddings
from keras_bert.pictures.positions import positions
