"""A fine-tuning run: its settings, its folder, how it resumes, its model card."""
