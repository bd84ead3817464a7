"""Fine-tuning runs: settings, training, resuming, the grid, the model card, and the finished folder."""
