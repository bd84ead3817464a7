"""Texts to vectors: sorted by length, run in batches, pooled inside the graph, and handed back in order."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.progress import progress
from keras_bert.text.packing import Packer, check_seq_length
from keras_bert.text.preprocessor import text_columns

logger = logging.getLogger(__name__)

COMBINE = ("concat", "sum", "mean")
POOLING = ("mean", "cls", "max", "pooled", None)
CHUNK = 1024  # texts tokenized at a time


@dataclass(frozen=True, eq=False)
class PieceVectors:
    """One text: its pieces, the characters [start, end) of the text that each came from, and a vector for each.

    >>> found = PieceVectors(("em", "##bed"), np.array([0, 2]), np.array([2, 5]), np.ones((2, 4), "float32"))
    >>> found.span(2, 5).shape
    (4,)
    """

    pieces: tuple[str, ...]
    start: np.ndarray  # [N]
    end: np.ndarray  # [N]
    vectors: np.ndarray  # [N, D]

    def span(self, start: int, end: int) -> np.ndarray:
        """The mean vector of the pieces that share a character with text[start:end]."""
        inside = (self.start < end) & (self.end > start)
        if not inside.any():
            raise ValueError(f"No piece stands at these characters. Received: start={start}, end={end}")
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
    """A float32 vector for each text, [n, d]; or, with `pooling=None`, a list with the `PieceVectors` of each text.

    Texts longer than the model or than `max_length` tokens are cut, which is logged.

    layers: one or more encoder blocks, from 0 or from -1 backwards. combine: "concat", "sum" or "mean" of these.
    pooling: "mean" or "max" of all tokens, "cls" for the first, "pooled" for the pooler's output.
    normalize: scale each vector to length 1. max_length: with [CLS] and [SEP]; None for as long as the model takes.
    """
    if not hasattr(batch_tokens, "__index__") or batch_tokens < 1:
        raise ValueError(f"batch_tokens must be a whole number from 1 on. Received: batch_tokens={batch_tokens!r}")
    if pooling is None and isinstance(texts, tuple):
        raise ValueError(
            'pooling=None gives the pieces of single texts. Pass a list of texts, or pooling="mean" for pairs.'
        )
    columns = [column[None] if column.shape.rank == 0 else column for column in text_columns(texts)]
    if len(columns) > bert.config.type_vocab_size:
        raise ValueError(
            f"A row must be of at most {bert.config.type_vocab_size} texts, which the model knows apart. Join some. "
            f"Received: {len(columns)} columns"
        )
    limit = bert.config.max_position_embeddings
    if max_length is not None:
        limit = min(limit, check_seq_length(max_length, len(columns), "max_length"))
    packer = replace(bert.preprocessor.packer, max_length=limit)
    chosen = tuple(layers) if isinstance(layers, Iterable) else (layers,)
    _check_options(bert.config.num_hidden_layers, chosen, combine, pooling)
    run = _runner(bert, packer, len(columns), chosen, combine, pooling, normalize)
    segments, start, end = _tokenize(bert.preprocessor, columns, offsets=pooling is None)
    room = limit - len(segments) - 1
    lengths = np.sum([segment.row_lengths().numpy() for segment in segments], axis=0)  # [n]
    cut = (lengths > room).sum()
    if cut:
        logger.warning("%d of %d texts are cut to %d tokens.", cut, len(lengths), limit)

    order = np.argsort(-lengths, kind="stable")  # the longest first: what does not fit into memory fails at once
    batches = _batches(order, np.minimum(lengths, room) + limit - room, batch_tokens)
    vectors = progress(((batch, run(segments, batch)) for batch in batches), "Embedding", len(batches))
    if pooling is not None:
        found = np.zeros((len(order), run.width), "float32")
        for batch, rows in vectors:
            found[batch] = rows
        return found
    pieces: list[Any] = [None] * len(order)
    token, splits = bert.preprocessor.vocabulary.token, segments[0].row_splits.numpy()
    ids, starts, ends = (part.values.numpy() for part in (segments[0], start, end))
    for batch, rows in vectors:
        for index, row in zip(batch, rows, strict=True):
            kept = min(lengths[index], room)
            own = slice(splits[index], splits[index] + kept)
            row = row[1 : kept + 1].copy()  # without [CLS] and [SEP]
            pieces[index] = PieceVectors(tuple(map(token, ids[own])), starts[own], ends[own], row)
    return pieces


def _check_options(blocks: int, layers: tuple[int, ...], combine: str, pooling: str | None) -> None:
    if combine not in COMBINE or pooling not in POOLING:
        raise ValueError(
            f"combine must be one of {COMBINE} and pooling one of {POOLING}. "
            f"Received: combine={combine!r}, pooling={pooling!r}"
        )
    numbers = all(hasattr(layer, "__index__") for layer in layers)
    if not layers or not numbers or not all(-blocks <= layer < blocks for layer in layers):
        raise ValueError(f"layers must name encoder blocks, from {-blocks} to {blocks - 1}. Received: layers={layers}")
    if pooling == "pooled" and layers not in ((-1,), (blocks - 1,)):
        raise ValueError(
            'pooling="pooled" is the pooler\'s output, which is made of the last block. Leave layers out, or use '
            f'pooling="cls". Received: layers={layers}'
        )


def _batches(order: np.ndarray, lengths: np.ndarray, batch_tokens: int) -> list[np.ndarray]:
    """The texts in order, as many at a time as `batch_tokens` allows: memory is bounded for texts of any length."""
    batches, start = [], 0
    while start < len(order):
        end = start + max(1, batch_tokens // int(lengths[order[start]]))
        batches.append(order[start:end])
        start = end
    return batches


def _tokenize(preprocessor: Any, columns: list[Any], offsets: bool) -> tuple[list[Any], Any, Any]:
    """Ragged ids [n, (pieces)] of each column, with starts and ends where they are wanted."""
    import tensorflow as tf

    def split(texts: Any) -> tuple[Any, ...]:
        parts = preprocessor.tokenize_with_offsets(texts) if offsets else (preprocessor.tokenize(texts),)
        return tuple(part.merge_dims(1, 2) for part in parts)

    with tf.device("CPU:0"):
        done = []
        for column in columns:
            chunks = [split(column[i : i + CHUNK]) for i in range(0, max(len(column), 1), CHUNK)]
            done.append([tf.concat(parts, axis=0) for parts in zip(*chunks, strict=True)])
    start, end = done[0][1:] if offsets else (None, None)
    return [parts[0] for parts in done], start, end


def _runner(bert: Any, packer: Packer, columns: int, *pooled: Any) -> "_Runner":
    """The one made before, kept by this Bert; a new one once `quantize` or `enable_lora` changed the variables."""
    # Past Keras's tracking, which would save what is kept here.
    cache = bert.__dict__.setdefault("_embed_runners", {})
    variables = tuple(map(id, bert.variables))
    if cache.get("variables") != variables:
        cache.clear()
        cache["variables"] = variables
    key = (packer, columns, *pooled)
    if key not in cache:
        cache[key] = _Runner(packer, columns, keras.Model(bert.input, features(bert, *pooled)))
    return cache[key]


def features(bert: Any, layers: tuple[int, ...], combine: str, pooling: str | None, normalize: bool) -> Any:
    """The symbolic vectors: [B, D], or [B, S, D] without pooling. Blocks above the highest of `layers` are left out."""
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


class _Runner:
    """Packs a batch and runs it: on TensorFlow in one graph, elsewhere in few static shapes."""

    def __init__(self, packer: Packer, columns: int, model: keras.Model) -> None:
        self.packer = packer
        self.columns = columns
        self.model = model
        self.width = model.output.shape[-1]

    def __call__(self, segments: list[Any], batch: np.ndarray) -> np.ndarray:
        if keras.backend.backend() == "tensorflow":
            return self._graph(segments, batch).numpy()
        rows = 1 << (len(batch) - 1).bit_length()
        padded = np.concatenate([batch, np.repeat(batch[:1], rows - len(batch))])
        packed = {name: value.numpy() for name, value in self._pack(segments, padded).items()}
        width = packed["input_mask"].shape[1]
        wider = min(-(-width // 16) * 16, self.packer.max_length) - width
        padding = {"input_word_ids": self.packer.pad}
        packed = {
            name: np.pad(value, ((0, 0), (0, wider)), constant_values=padding.get(name, 0))
            for name, value in packed.items()
        }
        return np.asarray(self.model.predict_on_batch(packed))[: len(batch)]

    def _pack(self, segments: list[Any], batch: Any) -> dict[str, Any]:
        import tensorflow as tf

        with tf.device("CPU:0"):
            return self.packer.pack([tf.gather(segment, batch) for segment in segments], "longest")

    @cached_property
    def _graph(self) -> Callable[..., Any]:
        import tensorflow as tf

        rows = tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64)

        @tf.function(input_signature=[[rows] * self.columns, tf.TensorSpec([None], tf.int64)])
        def graph(segments: list[Any], batch: Any) -> Any:
            return self.model(self._pack(segments, batch), training=False)

        return graph.get_concrete_function()  # tf.function itself warns when several runners are made
