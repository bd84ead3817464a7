"""Pictures: what a model looks at, where texts lie, how a training went."""

from keras_bert.pictures.attention import attention_page

__all__ = ["attention_page"]
