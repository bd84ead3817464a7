"""SavedModels in TF-Hub's form, and what it takes to serve them."""
