"""What users pass to a task: columns, tables, tf.data and packed inputs."""
