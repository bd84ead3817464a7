"""A pretraining run: its recipe, its folder, how it starts and resumes."""
