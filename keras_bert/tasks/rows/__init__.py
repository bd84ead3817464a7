"""Tokenized rows, with what is to be learned from them, and their batches."""
