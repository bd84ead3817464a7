"""Batches that are made ahead, by tf.data."""

from typing import Any

from keras_bert.lazy import tf


def prefetched(dataset: Any) -> Any:
    """The batches of a tf.data, which are made ahead."""
    options = tf.data.Options()
    options.autotune.enabled = False  # with it, the end of the data often waits for 10 or 20 seconds
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
