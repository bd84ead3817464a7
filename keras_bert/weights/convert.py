"""From any format to any that can be written, with a check of the result."""

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert.bert import Bert
from keras_bert.storage import new_folder
from keras_bert.weights import google, hugging_face, keras_hub, our_folder
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.load import read, read_source

logger = logging.getLogger("keras_bert")

TARGETS: dict[str, Any] = {"hf": hugging_face, "google": google, "keras-hub": keras_hub, "keras-bert": our_folder}


@dataclass(frozen=True)
class Conversion:
    """What was written, what was left out and why, and the largest difference between the outputs of both models."""

    checkpoint: Checkpoint
    left_out: dict[str, str]
    difference: float


def convert(
    source: Any, to: str, directory: str | os.PathLike, *, cache_dir: str | None = None, local_only: bool = False
) -> Conversion:
    """Write `source` as `to` (hf, google, keras-hub or keras-bert) into a new folder.

    The folder appears when what was written has been loaded again and compared. A head or a setting that the other
    format cannot hold is left out and listed. A model that KerasHub cannot compute is refused.
    """
    if to not in TARGETS:
        raise ValueError(f"{to!r} cannot be written. For `to`, use one of {', '.join(TARGETS)}. Received: to={to!r}")
    if not isinstance(directory, str | os.PathLike):
        raise TypeError(f"`directory` must be a path. Name a new folder. Received: directory={directory!r}")
    checkpoint = read_source(source, cache_dir=cache_dir, local_only=local_only)
    lost = TARGETS[to].cannot_hold(checkpoint)
    kept, folder = checkpoint.without(lost), os.path.abspath(directory)  # even if it has `..` after a new folder
    with new_folder(folder) as partial:
        TARGETS[to].write_checkpoint(kept, partial)
        with _without_info():  # what it would say of the temporary folder is known
            written = read(partial)
        difference = compare(kept, written)
    return Conversion(kept, {**checkpoint.left_out, **lost}, difference)


@contextmanager
def _without_info() -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def compare(ours: Checkpoint, theirs: Checkpoint) -> float:
    """The largest difference between outputs for the same random ids; heads and text rules must be the same."""
    if ours.vocabulary is not None and ours.vocabulary != theirs.vocabulary:
        raise _failure(theirs, "another vocabulary")
    if ours.vocabulary is not None and ours.rules != theirs.rules:
        raise _failure(theirs, f"{theirs.rules} instead of {ours.rules}")
    for name, head in ours.heads.items():
        for weight, entry in head.weights.items():
            if not np.array_equal(entry.read(), theirs.heads[name].weights[weight].read()):
                raise _failure(theirs, f"{weight} with other values")
    first = _outputs(ours)
    gc.collect()  # a Keras model refers to itself, and two would be in memory
    second = _outputs(theirs)
    difference = max(float(np.abs(x - y).max()) for x, y in zip(first, second, strict=True))
    if not difference <= 1e-5:
        raise _failure(theirs, f"outputs that differ by {difference:.2g}")
    return difference


def _failure(theirs: Checkpoint, received: str) -> RuntimeError:
    return RuntimeError(
        f"What was written as {theirs.format} is another model when it is read again, so it is not kept. Please report "
        f"this error. Received: {received}"
    )


def _outputs(checkpoint: Checkpoint) -> list[np.ndarray]:
    config, rng = checkpoint.config, np.random.default_rng(0)
    bert = Bert(config, dtype="float32")
    checkpoint.assign_to(bert)
    length = min(16, config.max_position_embeddings)
    inputs = {
        "input_word_ids": rng.integers(0, config.vocab_size, (2, length), dtype="int32"),
        "input_mask": (np.arange(length) < np.array([[length], [length // 2 + 1]])).astype("int32"),
        "input_type_ids": rng.integers(0, config.type_vocab_size, (2, length), dtype="int32"),
    }
    outputs = bert(inputs)
    names = ("sequence_output", "pooled_output") if "pooler/kernel" in checkpoint.weights else ("sequence_output",)
    return [np.asarray(keras.ops.convert_to_numpy(outputs[name])) for name in names]
