"""Ids in the forms in which users pass them, as ragged rows."""

from typing import Any

from keras_bert.text.tensors import tf


def ragged_rows(ids: Any, rule: str, ranks: tuple[int, ...], ragged_rank: int | None = None) -> tuple[Any, int]:
    """Ids [S], [B, S] or [B, (words), (pieces)], if that rank is allowed, as ragged [B, (pieces)], and their rank.

    rule: the beginning of the error for other values. ragged_rank: of nested lists, if it must not be guessed.
    """
    if isinstance(ids, list | tuple):
        try:
            ids = tf.ragged.constant(ids, tf.int32, ragged_rank=ragged_rank)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{rule} Received: {error}") from None
    elif not tf.is_tensor(ids):
        ids = tf.convert_to_tensor(ids)
    rank = len(ids.shape)
    if rank not in ranks or "int" not in str(ids.dtype):
        raise ValueError(f"{rule} Received: shape={ids.shape}, dtype={ids.dtype.name}")
    if rank == 1:
        ids = ids[None]
    if not isinstance(ids, tf.RaggedTensor):
        ids = tf.RaggedTensor.from_tensor(ids, ragged_rank=len(ids.shape) - 1)
    return (ids.merge_dims(1, 2) if rank == 3 else ids), rank
