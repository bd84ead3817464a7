"""The rows of all replicas of TensorFlow, for a loss that compares the rows of a batch."""

from typing import Any

from keras_bert.lazy import tf


def of_all_replicas(*batch: Any) -> list[Any]:
    """These tensors [B, ...] with the rows of all replicas. Their gradients are the sums of those of all replicas.

    TensorFlow's `all_gather` fails in workers with one device each. One sum of all tensors is sent at once.
    """
    context = tf.distribute.get_replica_context()
    own = tf.one_hot(context.replica_id_in_sync_group, context.num_replicas_in_sync)  # [replicas]
    # Each is [replicas, B, ...], and 0 but for the rows of this replica.
    parts = context.all_reduce("sum", [tf.tensordot(own, tf.cast(values, tf.float32), axes=0) for values in batch])
    return [tf.reshape(part, (-1, *part.shape[2:])) for part in parts]
