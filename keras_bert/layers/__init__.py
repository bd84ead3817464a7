"""The layers BERT is wired from, beside Keras's own Dense."""
