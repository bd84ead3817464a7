"""From any format to any that can be written, with a check of the result."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.bert import Bert
from keras_bert.config import BertConfig
from keras_bert.weights import google, hugging_face, keras_hub, own
from keras_bert.weights.checkpoint import Checkpoint
from keras_bert.weights.load import read, read_source

TARGETS: dict[str, Any] = {"hf": hugging_face, "google": google, "keras-hub": keras_hub, "keras-bert": own}


@dataclass(frozen=True)
class Conversion:
    """What was read, what stayed behind and why, and the largest difference between the outputs of both."""

    checkpoint: Checkpoint
    left_out: dict[str, str]
    difference: float


def convert(
    source: Any, to: str, directory: str | os.PathLike, *, cache_dir: str | None = None, local_only: bool = False
) -> Conversion:
    """Write `source` as `to` (hf, google, keras-hub or keras-bert) into a new folder, load that again and compare.

    A head that the other format has no place for is left out and listed.
    """
    if to not in TARGETS:
        raise ValueError(f"to must be one of {', '.join(TARGETS)}. Received: to={to!r}")
    checkpoint = read_source(source, cache_dir=cache_dir, local_only=local_only)
    kept, left_out = fit(checkpoint, to)
    TARGETS[to].write_checkpoint(kept, Path(directory))
    difference = compare(kept, read(Path(directory)))
    return Conversion(kept, {**checkpoint.left_out, **left_out}, difference)


def fit(checkpoint: Checkpoint, to: str) -> tuple[Checkpoint, dict[str, str]]:
    """The checkpoint without what `to` cannot hold, and why each part was left out."""
    kept, left_out, pooling = dict(checkpoint.heads), {}, checkpoint.pooling
    if pooling is not None and to in ("google", "keras-hub"):
        left_out["pooling"], pooling = "the format does not say how embed makes a vector", None
    if to == "google":
        left_out |= _unlike_google(checkpoint.config)
    for name, head in checkpoint.heads.items():
        if to == "keras-hub":
            reason = "a KerasHub preset is written of the encoder alone"
        elif head.config not in (None, checkpoint.config):
            reason = "it is computed otherwise than its encoder, which the format cannot say"
        elif to == "google" and name not in google.HEADS:
            reason = "Google's checkpoints have no such head"
        elif to == "google" and head.multi_label:
            reason = "several of its labels may hold at once, which the format cannot say"
        elif to == "hf" and not _fits(kept):
            reason = "a HuggingFace folder holds one task"
        else:
            if to == "google" and head.labels:
                left_out["labels"] = "Google's checkpoints do not name them; they load as LABEL_0 and so on"
                kept[name] = dataclasses.replace(head, labels=None)
            continue
        left_out[f"head {name}"] = reason
        del kept[name]
    return dataclasses.replace(checkpoint, heads=kept, pooling=pooling), left_out


def _unlike_google(config: BertConfig) -> dict[str, str]:
    """What of a config is written and read back, and google-research/bert's scripts do not compute."""
    told = {}
    if config.hidden_act != "gelu_tanh":
        told["hidden_act"] = "kept for keras_bert; Google's scripts have the tanh GELU alone, and refuse this"
    if config.layer_norm_eps != 1e-12:
        told["layer_norm_eps"] = f"kept for keras_bert; Google's scripts take 1e-12, and not {config.layer_norm_eps}"
    return told


def _fits(heads: dict[str, Any]) -> bool:
    try:
        hugging_face.architecture_of(set(heads))
    except ValueError:
        return False
    return True


def compare(ours: Checkpoint, theirs: Checkpoint) -> float:
    """The largest difference between outputs on the same random ids, once heads and text are seen to be the same."""
    if ours.vocabulary is not None and ours.vocabulary != theirs.vocabulary:
        raise RuntimeError(
            "What was written must be what was read. Report this, please. Received: another vocabulary in "
            f"{theirs.source}"
        )
    if ours.vocabulary is not None and ours.rules != theirs.rules:
        raise RuntimeError(
            f"What was written must be what was read. Report this, please. Received: {theirs.rules} for {ours.rules}"
        )
    for name, head in ours.heads.items():
        for weight, entry in head.weights.items():
            if not np.array_equal(entry.read(), theirs.heads[name].weights[weight].read()):
                raise RuntimeError(
                    f"What was written must be what was read. Report this, please. Received: {weight} differs"
                )
    first = _outputs(ours)
    keras.backend.clear_session(free_memory=True)
    second = _outputs(theirs)
    difference = max(float(np.abs(x - y).max()) for x, y in zip(first, second, strict=True))
    if not difference <= 1e-5:
        raise RuntimeError(
            "What was written must give the outputs of what was read. Report this, please. "
            f"Received: a difference of {difference:.2g}"
        )
    return difference


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
