"""Training: one loop for pretraining and fine-tuning under tf.distribute, its checkpoints, and the optimizers."""
