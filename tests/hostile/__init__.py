"""Inputs that are made to break something, found by hypothesis.

In CI the inputs are the same every time and take about a minute. `make soak` draws new ones for hours. An input that
ever failed is a line of corpus.jsonl, which test_corpus.py runs every time.
"""
