"""SavedModels in TF-Hub's form."""
