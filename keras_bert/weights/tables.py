"""A format's table of names, theirs <-> ours, and the weights read and written by it."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.wording import listed

logger = logging.getLogger("keras_bert")

Shape = tuple[int, ...]
HEADS = ("mlm", "nsp", "classifier", "regressor", "tagger", "qa", "choice")


@dataclass(frozen=True)
class Stored:
    """An array that is read only when asked for."""

    shape: Shape
    read: Callable[[], np.ndarray]

    @classmethod
    def of(cls, x: np.ndarray) -> "Stored":
        return cls(tuple(x.shape), lambda: x)


@dataclass(frozen=True)
class Row:
    """One row of a format's table.

    ours: "layer/weight" of our model. In both names {i} is the number of the encoder block; {i+1} counts from 1, and
        {_i} as Keras does: nothing, _1, _2.
    transposed: their array is ours with its two axes swapped.
    heads: this axis of ours, of size H, is two axes [A, D] of theirs.
    part: their array is this third (0, 1, 2: query, key, value) of our last axis.
    """

    theirs: str
    ours: str
    transposed: bool = False
    heads: int | None = None
    part: int | None = None

    def shape(self, ours: Shape, config: BertConfig) -> Shape:
        """The shape of their array."""
        shape = list(ours)
        if self.part is not None:
            shape[-1] //= 3
        if self.heads is not None:
            shape[self.heads : self.heads + 1 or None] = [config.num_attention_heads, config.head_size]
        return tuple(reversed(shape) if self.transposed else shape)

    def to_ours(self, x: np.ndarray) -> np.ndarray:
        if self.transposed:
            return x.T
        if self.heads is None:
            return x
        at = self.heads % (x.ndim - 1)
        return x.reshape((*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :]))

    def to_theirs(self, x: np.ndarray, config: BertConfig) -> np.ndarray:
        shape = self.shape(x.shape, config)
        if self.part is not None:
            x = np.split(x, 3, -1)[self.part]
        return np.ascontiguousarray(x.T if self.transposed else x.reshape(shape))


Table = tuple[Row, ...]


@dataclass(frozen=True)
class Naming:
    """What a format appends to the name of a Dense layer and of a norm for each of their weights."""

    kernel: str = "/kernel"
    bias: str = "/bias"
    gamma: str = "/gamma"
    beta: str = "/beta"
    transposed: bool = False  # whether its kernels are

    def dense(self, theirs: str, ours: str, *, heads: int | None = None, part: int | None = None) -> Table:
        """The rows of a Dense layer; a bias has heads only where they are the kernel's last axis."""
        kernel = Row(theirs + self.kernel, f"{ours}/kernel", self.transposed, heads, part)
        return kernel, Row(theirs + self.bias, f"{ours}/bias", heads=heads if heads == -1 else None, part=part)

    def norm(self, theirs: str, ours: str) -> Table:
        return Row(theirs + self.gamma, f"{ours}/gamma"), Row(theirs + self.beta, f"{ours}/beta")


def blocks(table: Iterable[Row], config: BertConfig) -> list[Row]:
    """The table with a row for each encoder block in place of {i}."""
    return [
        replace(row, theirs=numbered(row.theirs, i), ours=numbered(row.ours, i))
        for row in table
        for i in range(config.num_hidden_layers if "{i}" in row.ours else 1)
    ]


def numbered(name: str, i: int) -> str:
    """A name of the table for block i.

    >>> numbered("layer{_i} is number {i+1}", 2)
    'layer_2 is number 3'
    """
    return name.replace("{i}", str(i)).replace("{i+1}", str(i + 1)).replace("{_i}", f"_{i}" if i else "")


# === Our own names and shapes ===


def encoder_shapes(config: BertConfig) -> dict[str, Shape]:
    """The weights of our encoder and their shapes, without building it."""
    h, inner = config.hidden_size, config.intermediate_size

    def dense(name: str, rows: int, columns: int) -> dict[str, Shape]:
        return {f"{name}/kernel": (rows, columns), f"{name}/bias": (columns,)}

    def norm(name: str) -> dict[str, Shape]:
        return {f"{name}/gamma": (h,), f"{name}/beta": (h,)}

    shapes: dict[str, Shape] = {
        "word_embeddings/embeddings": (config.vocab_size, h),
        "position_embeddings/embeddings": (config.max_position_embeddings, h),
        "type_embeddings/embeddings": (config.type_vocab_size, h),
    }
    shapes |= norm("embeddings_norm")
    for i in range(config.num_hidden_layers):
        block = f"layer_{i}"
        shapes |= dense(f"{block}_attention_qkv", h, 3 * h) | dense(f"{block}_attention_output", h, h)
        shapes |= norm(f"{block}_attention_norm") | dense(f"{block}_intermediate", h, inner)
        shapes |= dense(f"{block}_output", inner, h) | norm(f"{block}_output_norm")
    return shapes | dense("pooler", h, h)


def head_shapes(head: str, config: BertConfig, outputs: int = 1) -> dict[str, Shape]:
    """The weights of a head and their shapes; `outputs` counts where the head is one Dense layer with its name."""
    h = config.hidden_size
    if head == "mlm":
        dense: dict[str, Shape] = {"mlm_dense/kernel": (h, h), "mlm_dense/bias": (h,)}
        return dense | {"mlm_norm/gamma": (h,), "mlm_norm/beta": (h,), "mlm_bias/bias": (config.vocab_size,)}
    outputs = 2 if head in ("nsp", "qa") else outputs
    return {f"{head}/kernel": (h, outputs), f"{head}/bias": (outputs,)}


# === Reading ===


def read_all(
    encoder: Table,
    heads: Mapping[str, Table],
    stored: Mapping[str, Stored],
    config: BertConfig,
    source: Any,
    outside: Collection[str] = (),
) -> tuple[dict[str, Stored], dict[str, dict[str, Stored]], dict[str, str]]:
    """The encoder's weights, those of each head of which the file has any, and what is left out; by our names.

    A file may lack the pooler, as models of tokens do. Any other weight that is missing or left over is an error,
    except those in `outside`: names that belong to layers which the user put around BERT.
    """
    shapes, left_out = encoder_shapes(config), {}
    if not any(row.theirs in stored for row in encoder if row.ours.startswith("pooler/")):
        left_out["pooler"] = (
            "the file has none; a new pooler is drawn at random, and until it is trained `pooled_output` means nothing"
        )
        shapes = {name: shape for name, shape in shapes.items() if not name.startswith("pooler/")}
    weights = to_our_names(encoder, stored, shapes, config, source)
    used = their_names(encoder, config)
    found = {}
    for head, table in heads.items():
        if names := their_names(table, config) & stored.keys():
            shapes = head_shapes(head, config, head_outputs(table, stored))
            found[head] = to_our_names(table, stored, shapes, config, source)
            used |= names
    _refuse_left_over(set(stored) - used - set(outside), source)
    if around := [f"{name} {list(stored[name].shape)}" for name in sorted(set(outside) - used)]:
        left_out |= dict.fromkeys(around, "it belongs to a layer around BERT")
        logger.warning("%s: only BERT was loaded, not the layers around it: %s.", source, ", ".join(around))
    return weights, found, left_out


def read_head(
    head: str, table: Table, stored: Mapping[str, Stored], config: BertConfig, source: Any
) -> dict[str, Stored]:
    """The weights of a head that has a file of its own."""
    weights = to_our_names(table, stored, head_shapes(head, config, head_outputs(table, stored)), config, source)
    _refuse_left_over(set(stored) - their_names(table, config), source)
    return weights


def _refuse_left_over(names: set[str], source: Any) -> None:
    if names:
        raise ValueError(
            f"{source} has weights that BERT does not have. If its config has too few layers, correct the config; if "
            "it is a model of another architecture, load it with its own package. "
            f"Left over: {listed(sorted(names))}. Received: {len(names)} weights too many"
        )


def their_names(table: Iterable[Row], config: BertConfig) -> set[str]:
    """Every name of theirs in the table."""
    return {row.theirs for row in blocks(table, config)}


def head_outputs(table: Table, stored: Mapping[str, Stored]) -> int:
    """The outputs of a head whose second row is its bias; 1 where that has no length.

    A kernel that is transposed by mistake does not show them.
    """
    bias = stored.get(table[1].theirs)
    return bias.shape[-1] if bias and bias.shape else 1


def to_our_names(
    table: Iterable[Row], stored: Mapping[str, Stored], shapes: Mapping[str, Shape], config: BertConfig, source: Any
) -> dict[str, Stored]:
    """The weights in `shapes` by our names, once all are seen to be there in the right shape; arrays stay unread."""
    rows: dict[str, list[Row]] = {}
    for row in blocks(table, config):
        if row.ours in shapes:
            rows.setdefault(row.ours, []).append(row)
    missing = [row.theirs for name in shapes for row in rows[name] if row.theirs not in stored]
    if missing:
        raise ValueError(
            f"{source} is damaged, or holds another model: it lacks weights that its config calls for. Download or "
            f"save it again, or correct the config. Missing: {listed(missing)}. Received: {len(stored)} weights"
            f"{f', such as {min(stored)}' if stored else ''}"
        )
    for name, shape in shapes.items():
        for row in rows[name]:
            found, expected = stored[row.theirs].shape, row.shape(shape, config)
            if tuple(found) != expected:
                wrong = {size for size, other in zip(expected, found, strict=False) if size != other}
                named = [f"{key}={value}" for key, value in vars(config).items() if value in wrong]
                raise ValueError(
                    f"In {source}, {row.theirs} has the shape {list(found)}, but by the config and the other weights "
                    f"it should be {list(expected)}. Correct {' or '.join(named) or 'the sizes'} in the config, or get "
                    f"the weights that belong to it. Received: {list(found)}"
                )
    in_order = {name: sorted(rows[name], key=lambda row: row.part or 0) for name in shapes}
    return {name: _join(in_order[name], stored, shape, source) for name, shape in shapes.items()}


def _join(rows: list[Row], stored: Mapping[str, Stored], shape: Shape, source: Any) -> Stored:
    def load() -> np.ndarray:
        parts = [row.to_ours(finite(row.theirs, stored[row.theirs].read(), source)) for row in rows]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, -1)

    return Stored(shape, load)


def finite(name: str, x: np.ndarray, source: Any) -> np.ndarray:
    """The array; an error if it has NaN or infinity, or complex numbers."""
    if np.iscomplexobj(x):
        raise ValueError(
            f"{source} has a weight of complex numbers: {name}. Save the model with real weights. Received: {x.dtype}"
        )
    single = np.asarray(x, "float32")
    # A sum of squares is one fast pass; it may be infinite although every number is finite.
    if not np.isfinite(np.vdot(single, single)) and not np.isfinite(single).all():
        raise ValueError(
            f"{source} has a weight with NaN or infinity: {name}. Use a checkpoint from before the training failed, "
            f"or download it again. Received: {np.count_nonzero(~np.isfinite(single))} of {single.size} numbers"
        )
    return x


# === Writing ===


def to_their_names(table: Iterable[Row], ours: Mapping[str, Stored], config: BertConfig) -> dict[str, Stored]:
    """Our weights under their names and in their shapes; a row whose weight we do not have is skipped."""
    rows = [row for row in blocks(table, config) if row.ours in ours]
    if unnamed := sorted(set(ours) - {row.ours for row in rows}):
        raise ValueError(
            "The format to be written has no place for some weights. Remove them from the checkpoint first. "
            f"Received: {listed(unnamed)}"
        )

    def cut(row: Row) -> Stored:
        source = ours[row.ours]
        return Stored(row.shape(source.shape, config), lambda: row.to_theirs(source.read(), config))

    return {row.theirs: cut(row) for row in rows}
