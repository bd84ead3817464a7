"""Load with a head: a task out of any format that has its head."""

import os
from pathlib import Path
from typing import Any

import keras

from keras_bert.bert import Bert
from keras_bert.weights import own, saved_model
from keras_bert.weights.checkpoint import Checkpoint, head_variables
from keras_bert.weights.load import build, read_source


def load_head(
    source: Any,
    heads: tuple[str, ...],
    *,
    dtype: Any = None,
    seq_length: int | str = 128,
    cache_dir: str | os.PathLike | None = None,
    local_only: bool = False,
) -> tuple[Checkpoint, Bert]:
    """The checkpoint and the encoder of a source that has these heads; its labels are in `checkpoint.heads`.

    The other arguments are those of `keras_bert.load`.
    """
    checkpoint = read_source(source, cache_dir=cache_dir, local_only=local_only)
    missing = [head for head in heads if head not in checkpoint.heads]
    if missing:
        raise ValueError(
            f"The source must have the head {', '.join(missing)}. Load the task that it has, or begin a new head on "
            f"keras_bert.load(source). Received: {checkpoint.source} with {_listed(checkpoint)}"
        )
    return checkpoint, build(checkpoint, dtype=dtype, seq_length=seq_length)


def assign_head(task: Any, checkpoint: Checkpoint) -> None:
    """Put the checkpoint's arrays into the task's heads; one that the checkpoint lacks stays as it began."""
    for head in set(task.heads) & set(checkpoint.heads):
        ours = head_variables(task, head)
        for name, stored in checkpoint.heads[head].weights.items():
            ours[name].assign(stored.read())


def load_saved(kind: type, source: Any, *, dtype: Any = None, seq_length: int | str | None = None) -> Any:
    """The task itself, every setting of it, where the source is a .keras file or an export of this kind; else None.

    The preprocessor's length stays as it was saved unless `seq_length` is given.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    file = own.keras_file(Path(source))
    task = saved_model.read_task(Path(source)) if file is None else own.read_keras(file)
    if not isinstance(task, kind):
        return None
    if dtype is not None:
        task = _with_dtype(task, dtype)
    if seq_length is not None and task.bert._preprocessor is not None:
        task.bert.preprocessor.seq_length = seq_length
    return task


def _with_dtype(task: Any, dtype: Any) -> Any:
    config = task.get_config()
    config["bert"]["config"]["dtype"] = keras.dtype_policies.serialize(keras.dtype_policies.get(dtype))
    changed = type(task).from_config(config)
    changed.bert.set_weights(task.bert.get_weights())  # of layers that the task has no use for too
    changed.set_weights(task.get_weights())
    return changed


def _listed(checkpoint: Checkpoint) -> str:
    return f"the heads {', '.join(checkpoint.heads)}" if checkpoint.heads else "no head"
