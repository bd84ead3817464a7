"""Training: the optimizer, and in time the one loop for pretraining and fine-tuning under tf.distribute."""
