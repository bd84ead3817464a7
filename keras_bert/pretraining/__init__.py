"""Pretraining: from documents to a BERT."""
