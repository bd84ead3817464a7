"""Checkpoints of every kind to one neutral form and back: one table of names for each format."""
