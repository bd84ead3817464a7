"""Texts to vectors: sorted by length, run in batches, pooled in the graph, and returned in their order."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from keras import ops

from keras_bert.checks import check_choice, check_flag
from keras_bert.choices import POOLING
from keras_bert.model import Model
from keras_bert.progress import progress
from keras_bert.text.packing import check_seq_length
from keras_bert.text.preprocessor import text_columns
from keras_bert.text.ragged_rows import without_words
from keras_bert.text.tokenized_rows import TokenizedRows, pieces, tokenize

COMBINE = ("concat", "sum", "mean")
POOLINGS = (*POOLING, "pooled", None)  # the last: none


@dataclass(frozen=True)
class Pooling:
    """How a sentence-transformers model turns a text into one vector: arguments of `Bert.embed`."""

    pooling: str = "mean"
    normalize: bool = False
    max_length: int | None = None


@dataclass(frozen=True, eq=False)
class PieceVectors:
    """The pieces of a text, with the characters [start, end) that each came from and a vector for each.

    >>> found = PieceVectors(("em", "##bed"), np.array([0, 2]), np.array([2, 5]), np.ones((2, 4), "float32"))
    >>> found.span(2, 5).shape
    (4,)
    """

    pieces: tuple[str, ...]
    start: np.ndarray  # [N]
    end: np.ndarray  # [N]
    vectors: np.ndarray  # [N, D]

    def span(self, start: int, end: int) -> np.ndarray:
        """The mean vector of the pieces that have a character in common with text[start:end]."""
        inside = (self.start < end) & (self.end > start)
        if not inside.any():
            raise ValueError(
                "The characters from `start` to `end` belong to no piece. Choose some that are neither spaces nor "
                f"truncated. Received: start={start}, end={end}"
            )
        return self.vectors[inside].mean(axis=0)


def embed(
    bert: Any,
    texts: Any,
    layers: int | Iterable[int] = (-1,),
    combine: str = "concat",
    pooling: str | None = "mean",
    normalize: bool = False,
    max_length: int | None = None,
    batch_tokens: int = 4096,
) -> Any:
    """A float32 vector for each text, [n, d]; with `pooling=None`, a list with the `PieceVectors` of each text.

    Texts that are longer than the model or than `max_length` are truncated. The log has their number.

    layers: one or more encoder blocks, from 0, or backwards from -1. combine: "concat", "sum" or "mean" of them.
    pooling: "mean" or "max" over all pieces, "cls" for the first piece, "pooled" for the pooler's output.
    normalize: scale each vector to length 1. max_length: in pieces, with [CLS] and [SEP]; None: the model's positions.
    batch_tokens: how many pieces, with padding, a batch may have.
    """
    check_flag("normalize", normalize)
    if not hasattr(batch_tokens, "__index__") or batch_tokens < 1:
        raise ValueError(
            f"`batch_tokens` must be a whole number of at least 1. Received: batch_tokens={batch_tokens!r}"
        )
    if pooling is None and isinstance(texts, tuple):
        raise ValueError(
            '`pooling=None` takes one text per row, not a pair. Pass a list of texts, or pooling="mean" for pairs. '
            "Received: a tuple"
        )
    columns = [column if len(column.shape) else column[None] for column in text_columns(texts)]
    if len(columns) > bert.config.type_vocab_size:
        raise ValueError(
            f"A row for this model can have at most {bert.config.type_vocab_size} texts. Join some of the columns. "
            f"Received: {len(columns)} columns"
        )
    limit = bert.config.max_position_embeddings
    if max_length is not None:
        limit = min(limit, check_seq_length(max_length, len(columns), "max_length"))
    chosen = tuple(layers) if isinstance(layers, Iterable) else (layers,)
    _check_options(bert.config.num_hidden_layers, chosen, combine, pooling)
    options = chosen, combine, pooling, normalize
    run = bert.runners.get(options, bert, lambda: Model(bert.input, features(bert, *options)))

    if pooling is None:
        parts = [tokenize(bert.preprocessor, column, offsets=True) for column in columns]
        segments = [without_words(ids) for ids, *_ in parts]
    else:
        segments = [pieces(bert.preprocessor, column) for column in columns]
    rows = TokenizedRows(segments, replace(bert.preprocessor.packer, max_length=limit))
    rows.warn_of_cuts(limit="`max_length`, the preprocessor's seq_length or the number of the model's positions")
    batches = rows.by_length(tokens=batch_tokens)
    vectors = progress(((index, run(rows, index)) for index in batches), "Embedding", len(batches))
    if pooling is not None:
        found = np.zeros((len(rows), run.model.output.shape[-1]), "float32")
        for index, batch in vectors:
            found[index] = batch
        return found
    of_texts: list[Any] = [None] * len(rows)
    token, splits = bert.preprocessor.vocabulary.token, np.asarray(segments[0].row_splits)
    ids, starts, ends = (np.asarray(part.flat_values) for part in parts[0])
    for index, batch in vectors:
        for number, row in zip(index, batch, strict=True):
            kept = rows.lengths[number] - 2  # without [CLS] and [SEP]
            own = slice(splits[number], splits[number] + kept)
            tokens = tuple(map(token, ids[own]))
            of_texts[number] = PieceVectors(tokens, starts[own], ends[own], row[1 : kept + 1].copy())
    return of_texts


def _check_options(blocks: int, layers: tuple[int, ...], combine: str, pooling: str | None) -> None:
    check_choice("combine", combine, COMBINE)
    if pooling not in POOLINGS:
        raise ValueError(f"`pooling` must be one of {POOLINGS}. Received: pooling={pooling!r}")
    numbers = all(hasattr(layer, "__index__") for layer in layers)
    if not layers or not numbers or not all(-blocks <= layer < blocks for layer in layers):
        raise ValueError(f"`layers` must be encoder blocks from {-blocks} to {blocks - 1}. Received: layers={layers}")
    if pooling == "pooled" and layers not in ((-1,), (blocks - 1,)):
        raise ValueError(
            'pooling="pooled" is the output of the pooler, which reads only the last block. Leave out the argument '
            f'`layers`, or use pooling="cls". Received: layers={layers}'
        )


def features(bert: Any, layers: tuple[int, ...], combine: str, pooling: str | None, normalize: bool) -> Any:
    """The symbolic vectors, [B, D], or [B, S, D] without pooling. Blocks above the highest of `layers` do not run."""
    if pooling == "pooled":
        x = ops.cast(bert.output["pooled_output"], "float32")  # [B, H]
    else:
        chosen = [ops.cast(bert.output["encoder_outputs"][layer], "float32") for layer in layers]  # each [B, S, H]
        x = ops.concatenate(chosen, axis=-1) if combine == "concat" else sum(chosen[1:], chosen[0])
        x = x / len(chosen) if combine == "mean" else x  # [B, S, D]
        mask = ops.expand_dims(bert.input["input_mask"], -1)  # [B, S, 1]
        if pooling == "mean":  # padding is zero in a Bert's outputs
            x = ops.sum(x, axis=1) / ops.cast(ops.sum(mask, axis=1), "float32")  # [B, D]
        elif pooling == "max":
            x = ops.max(ops.where(mask > 0, x, float("-inf")), axis=1)  # [B, D]
        elif pooling == "cls":
            x = x[:, 0]  # [B, D]
    return ops.normalize(x, axis=-1, epsilon=1e-12) if normalize else x
