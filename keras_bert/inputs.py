"""The three inputs of a BERT, and the errors for any others."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from keras import backend, ops

from keras_bert import kernels
from keras_bert.checks import check_length
from keras_bert.config import BertConfig
from keras_bert.text.shared_rows import SHARED_ROWS

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # each int32 [B, S]
OTHER_NAMES = {  # what transformers, KerasHub and google-research call them
    "input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids",
    "token_ids": "input_word_ids", "padding_mask": "input_mask", "segment_ids": "input_type_ids",
}  # fmt: skip


def check_inputs(inputs: Any, config: BertConfig, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """The inputs, lists as arrays; an error if a BERT with this config cannot use them. Values are checked only in
    eager calls.

    more: the names of further inputs of a model over a BERT, which checks them itself.

    >>> ids = check_inputs({name: [[1, 0]] for name in INPUTS}, BertConfig())["input_word_ids"]
    >>> ids.shape
    (1, 2)
    """
    names = (*INPUTS, *more)
    if not isinstance(inputs, Mapping):  # a dict, or the BatchEncoding of transformers
        what = "text" if _holds_text(inputs) else type(inputs).__name__
        raise TypeError(
            f"The inputs of a Bert must be a dict of {', '.join(names)}. For text, use bert.embed(texts) or "
            f"bert(bert.preprocessor(texts)). Received: {what}"
        )
    if set(inputs) != set(names):
        raise ValueError(
            f"The inputs of a Bert must be exactly {', '.join(names)}. {renaming(inputs)}. "
            f"Received: {', '.join(map(str, inputs))}"
        )
    arrays = {name: _matrix(name, inputs[name]) for name in INPUTS}
    word_ids = arrays["input_word_ids"]
    for name, x in arrays.items():
        if any(a != b for a, b in zip(x.shape, word_ids.shape, strict=True) if a is not None and b is not None):
            raise ValueError(
                f"`{name}` must have the shape of `input_word_ids`, {tuple(word_ids.shape)}. Pad both to one length. "
                f"Received: {tuple(x.shape)}"
            )
    if word_ids.shape[1] == 0:
        raise ValueError(
            "`input_word_ids` has empty sequences, but each needs at least [CLS]. Make the ids with "
            "bert.preprocessor(texts). Received: sequences of length 0"
        )
    check_ids(arrays, config)
    return {name: arrays.get(name, x) for name, x in inputs.items()}


def check_ids(inputs: Mapping[str, Any], config: BertConfig) -> None:
    """Refuse sequences [..., S] that are too long, and in eager calls ids outside the tables of the model."""
    check_length(np.shape(inputs["input_word_ids"])[-1], config.max_position_embeddings)
    _check_range("input_word_ids", inputs["input_word_ids"], config.vocab_size, "Use the vocabulary of these weights")
    remedy = f"Use at most {config.type_vocab_size} segments in each row, and number them from 0"
    _check_range("input_type_ids", inputs["input_type_ids"], config.type_vocab_size, remedy)


def check_names(model: str, names: Iterable[str], inputs: Mapping[str, Any]) -> None:
    """Refuse a dict that lacks some of the inputs of a model, or has more: Keras would mix them up."""
    given = set(inputs) - {SHARED_ROWS}
    if missing := set(names) - given:
        raise ValueError(
            f"{model} was called without {', '.join(sorted(missing))}. {renaming(inputs)}; for text, use predict(x) or "
            f"a method such as classify(x). Received: {', '.join(map(str, inputs))}"
        )
    if unread := given - set(names):
        raise ValueError(
            f"{model} was called with {', '.join(sorted(map(str, unread)))}, which it does not read. Leave it out. "
            f"Received: {', '.join(map(str, inputs))}"
        )


def refuse_keywords(keywords: Mapping[str, Any]) -> None:
    """An error for `model(**inputs)`, as models of transformers are called."""
    if names := [name for name in keywords if name in INPUTS or name in OTHER_NAMES]:
        renamed = "" if set(names) <= set(INPUTS) else f"{renaming(keywords)}. "
        raise TypeError(
            f"The inputs of a model must be one dict. Write model(inputs), without **. {renamed}"
            f"Received: {', '.join(names)} as keyword arguments"
        )


def renaming(inputs: Mapping[str, Any]) -> str:
    """What to do about inputs with other names."""
    renamed = [f"{name} to {OTHER_NAMES[name]}" for name in inputs if name in OTHER_NAMES]
    return f"Rename {', '.join(renamed)}" if renamed else "Rename, add or remove inputs"


def check_positions(positions: Any, word_ids: Any) -> None:
    """Refuse positions [B, P] outside the sequences [B, S]; they would point at other rows of the batch."""
    positions = _matrix("masked_lm_positions", positions)
    batch, length = np.shape(word_ids) if not hasattr(word_ids, "shape") else word_ids.shape
    if None not in (batch, positions.shape[0]) and batch != positions.shape[0]:
        raise ValueError(
            f"`masked_lm_positions` must have a row for each of the {batch} sequences. Add or remove rows. "
            f"Received: shape {tuple(positions.shape)}"
        )
    if length is not None:
        _check_range("masked_lm_positions", positions, length, "Count from 0 in each sequence, and use 0 for padding")


def _matrix(name: str, x: Any) -> Any:
    """The array of an input; an error unless it has integers and two axes."""
    try:
        x = x if hasattr(x, "dtype") else np.asarray(x)
    except ValueError:
        raise ValueError(
            f"`{name}` has rows of several lengths. Pad them to one length, and set input_mask to 0 at the padding. "
            f"Received: {type(x).__name__}"
        ) from None
    kind = str(x.dtype) if isinstance(x, np.ndarray) else backend.standardize_dtype(x.dtype)
    if not (kind.startswith(("int", "uint")) or (kind == "bool" and name == "input_mask")):
        raise TypeError(f"`{name}` must hold integers. Cast it to int32. Received: {kind}")
    if len(x.shape) != 2:
        axis = "positions" if name == "masked_lm_positions" else "sequence"
        raise ValueError(
            f"`{name}` must have the shape [batch, {axis}]. For one sequence, add an axis. Received: {tuple(x.shape)}"
        )
    return x


def _check_range(name: str, ids: Any, size: int, remedy: str) -> None:
    if not kernels.is_concrete(ids) or 0 in np.shape(ids):
        return
    values = ops.convert_to_numpy(ids)
    low, high = values.min(), values.max()
    if low < 0 or high >= size:
        raise ValueError(
            f"`{name}` has a number outside 0 to {size - 1}. {remedy}. Received: {low if low < 0 else high}"
        )


def _holds_text(inputs: Any) -> bool:
    if isinstance(inputs, (str, bytes)):
        return True
    if isinstance(inputs, (list, tuple)):
        return bool(inputs) and _holds_text(inputs[0])
    return str(getattr(inputs, "dtype", "")).startswith(("<U", "object", "string", "str", "<dtype: 'string'"))
