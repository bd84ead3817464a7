"""Making pretraining examples out of documents, and reading them back."""
