"""Loading with a head: what a task's `load` needs from any format that has its head."""

import os
from typing import Any

from keras_bert.bert import Bert
from keras_bert.layers.int8_dense import refuse_int8
from keras_bert.model import with_dtype
from keras_bert.named_weights import by_layer, named_weights
from keras_bert.saving import restore_layers
from keras_bert.weights import keras_archive, keras_file, our_export, zoo
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.load import build, check_dtype, read_source


def load_head(
    source: Any,
    heads: tuple[str, ...],
    *,
    dtype: Any = None,
    seq_length: int | str | None = None,
    cache_dir: str | os.PathLike | None = None,
    local_only: bool = False,
) -> tuple[Checkpoint, Bert]:
    """The checkpoint and the encoder of a source that has these heads; their labels are in `checkpoint.heads`.

    The other arguments are those of `keras_bert.load`. seq_length: None means its default.
    """
    check_dtype(dtype)
    checkpoint = read_source(source, cache_dir=cache_dir, local_only=local_only)
    if missing := [head for head in heads if head not in checkpoint.heads]:
        advice = (
            "Load it with the class of the task that it was trained on, or train a new head: pass "
            "keras_bert.load(source) to the class of your task."
        )
        if "mlm" in missing:
            advice = "That head guesses masked words. Use a model that was only pretrained, such as 'base'."
        raise ValueError(
            f"{checkpoint.source} has no head {', '.join(map(repr, missing))}. {advice} "
            f"Received: {'the heads ' + ', '.join(checkpoint.heads) if checkpoint.heads else 'no head'}"
        )
    return checkpoint, build(checkpoint, dtype=dtype, seq_length=128 if seq_length is None else seq_length)


def assign_head(task: Any, checkpoint: Checkpoint) -> None:
    """Put the checkpoint's arrays into the task's heads; a head that the checkpoint lacks keeps its initial weights."""
    ours = named_weights(task)
    for head in task.heads:  # in this order in all processes of a run, which JAX needs
        if head not in checkpoint.heads:
            continue
        for name, stored in checkpoint.heads[head].weights.items():
            variable = ours[name].variable
            _check_shape(checkpoint.source, name, stored.shape, tuple(variable.shape))
            variable.assign(stored.read())


def _check_shape(source: str, name: str, stored: tuple, ours: tuple) -> None:
    """Refuse weights of a head with another number of outputs."""
    head = name.split("/")[0]
    if stored == ours:
        return
    if head == "regressor":
        raise ValueError(
            f"The head 'regressor' of {source} has several outputs. A TextRegressor has one. Train a new head: "
            f"keras_bert.TextRegressor(keras_bert.load(source)). Received: {name} of shape {stored}"
        )
    if stored[-1] == ours[-1]:
        raise ValueError(
            f"The layer {head!r} of {source} has other inputs than the new task. Leave out the setting that changes "
            f"them. Received: {name} of shape {stored} in the file, {ours} in the task"
        )
    raise ValueError(
        f"The head {head!r} of {source} has {stored[-1]} outputs, but the new task has {ours[-1]}. Pass {stored[-1]} "
        "`labels` to `load`, or leave `labels` out. To train a new head, build the task on keras_bert.load(source). "
        f"Received: {name} of shape {stored} in the file, {ours} in the task"
    )


def read_saved(source: Any, compile: bool = True) -> Any:
    """The model in a .keras file, or the task in an export, with all its settings; None for any other source."""
    if not isinstance(source, str | os.PathLike) or not os.path.exists(source):
        return None
    path = zoo.path_of(source)
    if path is None:
        return None
    file = keras_archive.keras_file(path)
    return our_export.read_task(path) if file is None else keras_file.read_keras(file, compile)


def load_saved(
    kind: type, source: Any, *, dtype: Any = None, seq_length: int | str | None = None, **settings: Any
) -> Any:
    """The model in a .keras file or an export if it is an instance of `kind`, else None.

    settings: arguments of the constructor; all others are as they were saved.
    """
    check_dtype(dtype)
    task = read_saved(source)
    if not isinstance(task, kind):
        return None
    if settings:
        task = _with_settings(task, settings, str(source))
    if dtype is not None:
        task = with_dtype(task, dtype)
    if seq_length is not None and task.bert.has_preprocessor:
        task.bert.preprocessor.seq_length = seq_length
    return task


def _with_settings(task: Any, settings: dict[str, Any], source: str) -> Any:
    """The task with other settings. A layer that it has only with these keeps its initial weights."""
    saved = task.get_config()
    settings = {name: value for name, value in settings.items() if name not in saved or not _is(value, saved[name])}
    if not settings:
        return task
    refuse_int8(task.layers)
    changed = type(task).from_config({**saved, **settings, "changed_layers": {}})
    stored, layers = by_layer(task), {layer.name for layer in changed.layers}
    restore_layers(changed, {name: change for name, change in saved["changed_layers"].items() if name in layers})
    for layer, variables in by_layer(changed).items():
        for name, variable in variables.items():
            if layer in stored:
                value = stored[layer][name]
                _check_shape(source, f"{layer}/{name}", tuple(value.shape), tuple(variable.shape))
                variable.assign(value)
    return changed


def _is(value: Any, saved: Any) -> bool:
    """Whether a setting has the value that was saved; tuples are saved as lists."""
    return value == saved if not isinstance(value, tuple) else list(value) == saved
