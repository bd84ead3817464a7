"""The layers that BERT is built from, in addition to Keras's own Dense."""
