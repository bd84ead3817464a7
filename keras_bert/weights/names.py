"""How a format's table of names is read and written: their name <-> ours, and how their array relates to ours."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.wording import listed

Shape = tuple[int, ...]


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
    """One line of a format's table.

    ours: "layer/weight" of our model. {i} in both names is the encoder block, {_i} the same as Keras counts: nothing,
        _1, _2.
    transposed: theirs is ours with its two axes swapped.
    heads: this axis of ours, of size H, is two axes [A, D] of theirs.
    part: theirs is this part (0, 1, 2: query, key, value) of our fused last axis.
    """

    theirs: str
    ours: str
    transposed: bool = False
    heads: int | None = None
    part: int | None = None

    def shape(self, ours: Shape, config: BertConfig) -> Shape:
        """The shape of theirs."""
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


def encoder_shapes(config: BertConfig) -> dict[str, Shape]:
    """Our encoder's weights and their shapes, without building it."""
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


def shapes_in(
    table: Table, stored: Mapping[str, Stored], config: BertConfig, left_out: dict[str, str]
) -> dict[str, Shape]:
    """The encoder's shapes; without the pooler if the file has nothing of it, as models of tokens alone are saved."""
    shapes = encoder_shapes(config)
    if any(row.theirs in stored for row in table if row.ours.startswith("pooler/")):
        return shapes
    left_out["pooler"] = "the file has none; it is drawn at random, and pooled_output means nothing till it is trained"
    return {name: shape for name, shape in shapes.items() if not name.startswith("pooler/")}


def head_shapes(head: str, config: BertConfig, outputs: int | None = None) -> dict[str, Shape]:
    """The weights of a head; `outputs` of those that are one Dense layer named like the head."""
    h = config.hidden_size
    if head == "mlm":
        dense: dict[str, Shape] = {"mlm_dense/kernel": (h, h), "mlm_dense/bias": (h,)}
        return dense | {"mlm_norm/gamma": (h,), "mlm_norm/beta": (h,), "mlm_bias/bias": (config.vocab_size,)}
    outputs = 2 if head in ("nsp", "qa") else outputs
    if outputs is None:
        raise ValueError(f"The number of outputs must be known. Give it. Received: head={head!r}")
    return {f"{head}/kernel": (h, outputs), f"{head}/bias": (outputs,)}


def blocks(table: Iterable[Row], config: BertConfig) -> list[Row]:
    """The table with a row for each encoder block in place of {i}."""
    rows = []
    for row in table:
        count = config.num_hidden_layers if "{i}" in row.ours else 1
        for i in range(count):
            counted = row.theirs.replace("{i}", str(i)).replace("{_i}", f"_{i}" if i else "")
            names = {"theirs": counted, "ours": row.ours.replace("{i}", str(i))}
            rows.append(Row(**{**vars(row), **names}))
    return rows


def theirs(table: Iterable[Row], config: BertConfig) -> set[str]:
    """Every name of theirs in the table."""
    return {row.theirs for row in blocks(table, config)}


def read(
    table: Iterable[Row], stored: Mapping[str, Stored], shapes: Mapping[str, Shape], config: BertConfig, source: Any
) -> dict[str, Stored]:
    """Our weights out of theirs. One that is missing or of another shape is an error that names it."""
    rows: dict[str, list[Row]] = {}
    for row in blocks(table, config):
        if row.ours in shapes:
            rows.setdefault(row.ours, []).append(row)
    missing = [row.theirs for name in shapes for row in rows[name] if row.theirs not in stored]
    if missing:
        raise ValueError(
            f"The file must have every weight that its config calls for. Get it again, or correct the config. Missing: "
            f"{listed(missing)}. Received: {source}"
        )
    for name, shape in shapes.items():
        for row in rows[name]:
            check_shape(row.theirs, stored[row.theirs].shape, row.shape(shape, config), source)
    in_order = {name: sorted(rows[name], key=lambda row: row.part or 0) for name in shapes}
    return {name: _join(in_order[name], stored, shape, source) for name, shape in shapes.items()}


def _join(rows: list[Row], stored: Mapping[str, Stored], shape: Shape, source: Any) -> Stored:
    def load() -> np.ndarray:
        parts = [row.to_ours(finite(row.theirs, stored[row.theirs].read(), source)) for row in rows]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, -1)

    return Stored(shape, load)


def write(table: Iterable[Row], ours: Mapping[str, Stored], config: BertConfig) -> dict[str, Stored]:
    """Their weights out of ours; rows of weights that we do not have are passed over."""
    rows = [row for row in blocks(table, config) if row.ours in ours]
    unnamed = set(ours) - {row.ours for row in rows}
    if unnamed:
        raise ValueError(
            f"The format has no name for these weights. Leave them out. Received: {listed(sorted(unnamed))}"
        )

    def cut(row: Row) -> Stored:
        source = ours[row.ours]
        return Stored(row.shape(source.shape, config), lambda: row.to_theirs(source.read(), config))

    return {row.theirs: cut(row) for row in rows}


def check_shape(name: str, shape: Shape, expected: Shape, source: Any) -> None:
    if tuple(shape) != tuple(expected):
        raise ValueError(
            f"A weight must have the shape its config calls for: {name} {list(expected)}. Correct the config, or get "
            f"the weights that belong to it. Received: {list(shape)} in {source}"
        )


def finite(name: str, x: np.ndarray, source: Any) -> np.ndarray:
    """The array, if it holds numbers alone."""
    single = np.asarray(x, "float32")
    # A sum of squares is one fast pass; it may be infinite of numbers that are not.
    if not np.isfinite(np.vdot(single, single)) and not np.isfinite(single).all():
        raise ValueError(
            "A weight must hold finite numbers. Take a checkpoint from before the training failed, or get it again. "
            f"Received: NaN or infinity in {name} of {source}"
        )
    return x


def refuse_left_over(names: Iterable[str], source: Any) -> None:
    """An error if the file has weights that nothing read."""
    names = sorted(names)
    if names:
        raise ValueError(
            f"Every weight of the file must be one of BERT's. It may be another architecture, or have more layers "
            f"than its config says. Left over: {listed(names)}. Received: {source}"
        )
