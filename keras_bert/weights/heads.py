"""Loading with a head: what a task's `load` needs from any format that has its head."""

import os
from typing import Any

from keras_bert.bert import Bert
from keras_bert.model import with_dtype
from keras_bert.named_weights import named_weights
from keras_bert.weights import keras_file, our_export, zoo
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.load import build, check_dtype, read_source


def load_head(
    source: Any,
    heads: tuple[str, ...],
    *,
    dtype: Any = None,
    seq_length: int | str = 128,
    cache_dir: str | os.PathLike | None = None,
    local_only: bool = False,
) -> tuple[Checkpoint, Bert]:
    """The checkpoint and the encoder of a source that has these heads; their labels are in `checkpoint.heads`.

    The other arguments are those of `keras_bert.load`.
    """
    check_dtype(dtype)
    checkpoint = read_source(source, cache_dir=cache_dir, local_only=local_only)
    if missing := [head for head in heads if head not in checkpoint.heads]:
        raise ValueError(
            f"{checkpoint.source} has no head {', '.join(map(repr, missing))}. Use the task that fits one of the heads "
            "listed below, or train a new head: pass keras_bert.load(source) to the class of your task. "
            f"Received: {_listed(checkpoint)}"
        )
    return checkpoint, build(checkpoint, dtype=dtype, seq_length=seq_length)


def assign_head(task: Any, checkpoint: Checkpoint) -> None:
    """Put the checkpoint's arrays into the task's heads; a head that the checkpoint lacks keeps its initial weights."""
    ours = named_weights(task)
    for head in set(task.heads) & set(checkpoint.heads):
        for name, stored in checkpoint.heads[head].weights.items():
            variable = ours[name].variable
            if tuple(variable.shape) != stored.shape:
                if head == "regressor":
                    raise ValueError(
                        f"The head 'regressor' of {checkpoint.source} has several outputs. A TextRegressor has one. "
                        "Train a new head: keras_bert.TextRegressor(keras_bert.load(source)). "
                        f"Received: {name} of shape {stored.shape}"
                    )
                raise ValueError(
                    f"The head {head!r} of {checkpoint.source} has {stored.shape[-1]} outputs, but the new "
                    f"task has {variable.shape[-1]}. Pass {stored.shape[-1]} `labels` to `load`, or leave `labels` "
                    "out. To train a new head, build the task on keras_bert.load(source). Received: "
                    f"{name} of shape {stored.shape} in the file, {tuple(variable.shape)} in the task"
                )
            variable.assign(stored.read())


def read_saved(source: Any, compile: bool = True) -> Any:
    """The model in a .keras file, or the task in an export, with all its settings; None for any other source."""
    if not isinstance(source, str | os.PathLike) or not os.path.exists(source):
        return None
    path = zoo.path_of(source)
    if path is None:
        return None
    file = keras_file.keras_file(path)
    return our_export.read_task(path) if file is None else keras_file.read_keras(file, compile)


def load_saved(kind: type, source: Any, *, dtype: Any = None, seq_length: int | str | None = None) -> Any:
    """The model in a .keras file or an export if it is an instance of `kind`, else None.

    It has all the settings that were saved; `dtype` and `seq_length` change those two.
    """
    check_dtype(dtype)
    task = read_saved(source)
    if not isinstance(task, kind):
        return None
    if dtype is not None:
        task = with_dtype(task, dtype)
    if seq_length is not None and task.bert.has_preprocessor:
        task.bert.preprocessor.seq_length = seq_length
    return task


def _listed(checkpoint: Checkpoint) -> str:
    return f"the heads {', '.join(checkpoint.heads)}" if checkpoint.heads else "no head"
