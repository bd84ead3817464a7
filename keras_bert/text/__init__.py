"""Strings to ids inside the TensorFlow graph: vocabulary, tokenizer, packing, and the layer that joins them."""
