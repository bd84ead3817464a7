"""Documents and sentences out of files of raw text."""
