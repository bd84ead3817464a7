"""Training: one loop with an engine for TensorFlow and one for JAX, checkpoints, and the optimizers."""
