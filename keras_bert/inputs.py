"""The three inputs of a BERT, and what is wrong with others."""

from typing import Any

import numpy as np
from keras import backend, ops

from keras_bert import kernels
from keras_bert.config import BertConfig

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # each int32 [B, S]


def check_inputs(inputs: Any, config: BertConfig, more: tuple[str, ...] = ()) -> None:
    """Refuse inputs that are not what a BERT of this config takes; values are looked at in eager calls alone.

    more: the names of other inputs of a model over a BERT, which checks them itself.
    """
    names = (*INPUTS, *more)
    if not isinstance(inputs, dict):
        what = "text" if _holds_text(inputs) else type(inputs).__name__
        raise TypeError(
            f"A Bert takes a dict of {', '.join(names)}. For text, use bert.embed(texts) or "
            f"bert(bert.preprocessor(texts)). Received: {what}"
        )
    if set(inputs) != set(names):
        raise ValueError(
            f"The inputs must be {', '.join(names)}. Rename or add what is missing. "
            f"Received: {', '.join(map(str, inputs))}"
        )
    arrays = {name: _matrix(name, inputs[name]) for name in INPUTS}
    word_ids = arrays["input_word_ids"]
    for name, x in arrays.items():
        if any(a != b for a, b in zip(x.shape, word_ids.shape, strict=True) if a is not None and b is not None):
            raise ValueError(
                f"{name} must have the shape of input_word_ids, {tuple(word_ids.shape)}. Pad them alike. "
                f"Received: {tuple(x.shape)}"
            )
    if word_ids.shape[1] == 0:
        raise ValueError("A sequence must have at least one position, that of [CLS]. Pad it. Received: sequences of 0")
    check_length(word_ids.shape[1], config.max_position_embeddings)
    _check_range("input_word_ids", word_ids, config.vocab_size, "Use the vocabulary of these weights")
    _check_range("input_type_ids", arrays["input_type_ids"], config.type_vocab_size, "Number the segments from 0")


def check_positions(positions: Any, word_ids: Any) -> None:
    """Refuse positions [B, P] that do not stand in the sequences [B, S]; they would be other rows of the batch."""
    positions = _matrix("masked_lm_positions", positions)
    batch, length = np.shape(word_ids) if not hasattr(word_ids, "shape") else word_ids.shape
    if None not in (batch, positions.shape[0]) and batch != positions.shape[0]:
        raise ValueError(
            f"masked_lm_positions must have a row for each of the {batch} sequences. Received: {positions.shape[0]}"
        )
    if length is not None:
        _check_range("masked_lm_positions", positions, length, "Number them from 0 in each sequence, padding as 0")


def _matrix(name: str, x: Any) -> Any:
    """The array of an input, of whole numbers and two axes."""
    x = x if hasattr(x, "dtype") else np.asarray(x)
    kind = str(x.dtype) if isinstance(x, np.ndarray) else backend.standardize_dtype(x.dtype)
    if not (kind.startswith(("int", "uint")) or (kind == "bool" and name == "input_mask")):
        raise TypeError(f"{name} must hold integers. Cast it to int32. Received: {kind}")
    if len(x.shape) != 2:
        axis = "positions" if name == "masked_lm_positions" else "sequence"
        raise ValueError(
            f"{name} must be of shape [batch, {axis}]. For one sequence, add an axis. Received: {tuple(x.shape)}"
        )
    return x


def check_length(length: int | None, positions: int) -> None:
    """Refuse a sequence longer than the model's position table."""
    if length is not None and length > positions:
        raise ValueError(
            f"seq_length must be at most the model's {positions} positions. Shorten it, or load a model with more "
            f"positions. Received: seq_length={length}"
        )


def _check_range(name: str, ids: Any, size: int, remedy: str) -> None:
    if not kernels.is_concrete(ids) or 0 in ids.shape:
        return
    values = ops.convert_to_numpy(ids)
    low, high = values.min(), values.max()
    if low < 0 or high >= size:
        raise ValueError(f"{name} must be in 0...{size - 1}. {remedy}. Received: {low if low < 0 else high}")


def _holds_text(inputs: Any) -> bool:
    if isinstance(inputs, (str, bytes)):
        return True
    if isinstance(inputs, (list, tuple)):
        return bool(inputs) and _holds_text(inputs[0])
    return str(getattr(inputs, "dtype", "")).startswith(("<U", "object", "string", "str", "<dtype: 'string'"))
