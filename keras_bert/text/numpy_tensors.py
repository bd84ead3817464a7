"""The TensorFlow ops that `text` and the decoders of tasks use, in numpy, for environments without TensorFlow Text.

Packing, windows and decoding are written once, on the namespace that `tensors.tensors()` returns: TensorFlow, or this
module. Names, arguments and results are those of TensorFlow. Strings are UTF-8 `bytes` in arrays of objects.
"""

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_bert.text.philox import random_bits

# === Types, and making arrays ===

int32, int64, float32, float64, string = np.int32, np.int64, np.float32, np.float64, np.object_
bool = np.bool_
newaxis = None
Tensor = np.ndarray


def _array(x: Any, like: Any = None) -> np.ndarray:
    """An array; Python's own numbers get the type of the array `like`, or else TensorFlow's defaults."""
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x)
    x = np.asarray(x.encode() if isinstance(x, str) else x)
    if x.dtype.kind in "SU":
        return x.astype(object)
    if like is not None:
        return x.astype(like.dtype)
    return x.astype({"i": "int32", "f": "float32"}.get(x.dtype.kind, x.dtype))


def _arrays(values: Sequence[Any]) -> list[np.ndarray]:
    like = next((x for x in values if isinstance(x, np.ndarray | np.generic)), None)
    return [_array(x, like) for x in values]


def convert_to_tensor(x: Any) -> np.ndarray:
    return _array(x)


def constant(x: Any, dtype: Any = None, name: str | None = None) -> np.ndarray:
    if dtype is not string:
        return _array(x) if dtype is None else np.asarray(x, dtype)
    found = np.empty(np.shape(x) if isinstance(x, list) else (), object)  # bytes are no sequence here
    found[...] = [text.encode() if isinstance(text, str) else text for text in x] if isinstance(x, list) else x
    return found


def cast(x: Any, dtype: Any) -> np.ndarray:
    return np.asarray(x).astype(dtype)


def is_tensor(x: Any) -> Any:
    return isinstance(x, RaggedTensor)  # arrays are what users pass, too


def get_static_value(x: Any) -> Any:
    return x


def ensure_shape(x: Any, shape: Any) -> Any:
    return x


def device(name: str) -> Any:
    return contextlib.nullcontext()


class Variable:
    """A number that can be set."""

    def __init__(self, value: int, dtype: Any = None, trainable: Any = None) -> None:
        self.value = value

    def assign(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value, dtype)


def fill(dims: Any, value: Any) -> np.ndarray:
    value = _array(value)
    found = np.empty(tuple(dims), value.dtype)
    found[...] = value
    return found


def zeros(shape: Any, dtype: Any = float32) -> np.ndarray:
    return np.zeros(tuple(shape), dtype)


def ones_like(x: Any, dtype: Any = None) -> np.ndarray:
    return np.ones_like(x, dtype=dtype)


def range(*limits: Any, dtype: Any = int32) -> np.ndarray:
    return np.arange(*limits, dtype=dtype)


# === Shapes ===


def shape(x: Any) -> np.ndarray:
    return np.array(np.shape(x), int32)


def size(x: Any) -> np.ndarray:
    return np.int32(np.size(x))


def reshape(x: Any, dims: Any) -> np.ndarray:
    return np.reshape(x, tuple(dims))


def stack(values: Sequence[Any], axis: int = 0) -> np.ndarray:
    return np.stack(_arrays(values), axis)


def unstack(x: Any, num: int | None = None, axis: int = 0) -> list[np.ndarray]:
    return list(np.moveaxis(x, axis, 0))


def concat(values: Sequence[Any], axis: int) -> Any:
    if isinstance(values[0], RaggedTensor):
        lengths = np.concatenate([x.row_lengths() for x in values])
        return RaggedTensor(concat([x.values for x in values], 0), _splits(lengths))
    return np.concatenate(_arrays(values), axis)


def pad(x: Any, paddings: Any, constant_values: Any = 0) -> np.ndarray:
    return np.pad(x, paddings, constant_values=constant_values)


# === Numbers ===


def where(condition: Any, x: Any = None, y: Any = None) -> np.ndarray:
    return np.argwhere(condition) if x is None else np.where(condition, *_arrays([x, y]))


def maximum(x: Any, y: Any) -> np.ndarray:
    return np.maximum(*_arrays([x, y]))


def minimum(x: Any, y: Any) -> np.ndarray:
    return np.minimum(*_arrays([x, y]))


def clip_by_value(x: Any, low: Any, high: Any) -> np.ndarray:
    return np.clip(x, low, high).astype(x.dtype)


def add_n(values: Sequence[Any]) -> np.ndarray:
    return np.sum(values, axis=0, dtype=values[0].dtype)


def cumsum(x: Any, axis: int = 0, exclusive: Any = False) -> np.ndarray:
    x = _array(x)
    found = np.cumsum(x, axis, dtype=x.dtype)
    return found - x if exclusive else found


def reduce_sum(x: Any, axis: Any = None, keepdims: Any = False) -> np.ndarray:
    return np.sum(x, axis, dtype=x.dtype, keepdims=keepdims)


def reduce_max(x: Any, axis: Any = None, keepdims: Any = False) -> np.ndarray:
    return np.max(x, axis, keepdims=keepdims)


def reduce_any(x: Any, axis: Any = None) -> np.ndarray:
    return np.any(x, axis)


def argmax(x: Any, axis: int, output_type: Any = int64) -> np.ndarray:
    return np.argmax(x, axis).astype(output_type)


def sort(x: Any, axis: int = -1) -> np.ndarray:
    return np.sort(x, axis)


def argsort(x: Any, direction: str = "ASCENDING", stable: Any = False) -> np.ndarray:
    return np.argsort(x if direction == "ASCENDING" else -x, axis=-1, kind="stable").astype(int32)


def searchsorted(x: Any, values: Any) -> np.ndarray:
    return np.searchsorted(x, values).astype(int32)


# === Places ===


def gather(x: Any, index: Any, batch_dims: int = 0) -> Any:
    if isinstance(x, RaggedTensor):
        return x.gather(np.asarray(index))
    return np.take_along_axis(x, index, -1) if batch_dims else _array(x)[index]


def gather_nd(x: Any, index: Any) -> np.ndarray:
    return x[tuple(np.moveaxis(index, -1, 0))]


def tensor_scatter_nd_update(x: Any, index: Any, values: Any) -> np.ndarray:
    found = x.copy()
    found[tuple(np.moveaxis(index, -1, 0))] = values
    return found


def boolean_mask(x: Any, mask: Any) -> np.ndarray:
    return x[mask]


# === Segments and statistics ===


def _segments(data: Any, ids: Any, count: Any, ufunc: np.ufunc, empty: Any) -> np.ndarray:
    data, ids = np.asarray(data), np.asarray(ids)
    found = np.full(count, empty, data.dtype)
    ufunc.at(found, ids[ids >= 0], data[ids >= 0])  # negative ids are left out
    return found


def _least(data: Any) -> Any:
    return -np.inf if data.dtype.kind == "f" else np.iinfo(data.dtype).min


def _most(data: Any) -> Any:
    return np.inf if data.dtype.kind == "f" else np.iinfo(data.dtype).max


def _top_k(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    places = argsort(x, "DESCENDING")[..., :k]
    return np.take_along_axis(x, places, -1), places


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _unique_rows(x: np.ndarray, axis: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows in the order in which they come first, and the number of each row's."""
    _, first, number = np.unique(x, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return x[first[order]], np.argsort(order).astype(int32)[number.reshape(-1)]


math = SimpleNamespace(
    unsorted_segment_sum=lambda data, ids, count: _segments(data, ids, count, np.add, 0),
    unsorted_segment_max=lambda data, ids, count: _segments(data, ids, count, np.maximum, _least(data)),
    unsorted_segment_min=lambda data, ids, count: _segments(data, ids, count, np.minimum, _most(data)),
    count_nonzero=lambda x, axis, dtype: np.count_nonzero(x, axis).astype(dtype),
    is_inf=np.isinf,
    is_nan=np.isnan,
    top_k=_top_k,
)
nn = SimpleNamespace(softmax=_softmax)
raw_ops = SimpleNamespace(UniqueV2=_unique_rows)


# === Random numbers ===


def _uniform(dims: Sequence[int], seed: Any) -> np.ndarray:
    bits = random_bits(seed, dims[0]) & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)  # of floats from 1 to 2
    return bits.view(float32) - float32(1)


random = SimpleNamespace(
    split=lambda seed, num: random_bits(seed, 2 * num).view(int32).reshape(num, 2), stateless_uniform=_uniform
)


# === Ragged tensors ===


def _splits(lengths: Any) -> np.ndarray:
    return np.append(0, np.cumsum(lengths)).astype(int64)


class RaggedTensor:
    """Rows of different lengths: `values`, an array or again ragged, and the `row_splits` where each row begins."""

    def __init__(self, values: Any, row_splits: Any) -> None:
        self.values = values
        self.row_splits = np.asarray(row_splits, int64)

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, validate: Any = True) -> "RaggedTensor":
        return cls(np.asarray(values), row_splits)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any, validate: Any = True) -> "RaggedTensor":
        return cls(np.asarray(values), _splits(row_lengths))

    @classmethod
    def from_value_rowids(cls, values: Any, value_rowids: Any, nrows: int, validate: Any = True) -> "RaggedTensor":
        return cls(values, _splits(np.bincount(value_rowids, minlength=nrows)))

    @classmethod
    def from_tensor(cls, x: Any, ragged_rank: int = 1) -> "RaggedTensor":
        rows, columns = x.shape[:2]
        values = x.reshape(rows * columns, *x.shape[2:])
        return cls(cls.from_tensor(values) if ragged_rank > 1 else values, np.arange(rows + 1) * columns)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (self.nrows(), None, *self.values.shape[1:])

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def flat_values(self) -> np.ndarray:
        return self.values.flat_values if isinstance(self.values, RaggedTensor) else self.values

    def nrows(self) -> int:
        return len(self.row_splits) - 1

    def row_lengths(self) -> np.ndarray:
        return np.diff(self.row_splits)

    def row_starts(self) -> np.ndarray:
        return self.row_splits[:-1]

    def with_values(self, values: Any) -> "RaggedTensor":
        return RaggedTensor(values, self.row_splits)

    def merge_dims(self, outer: int, inner: int) -> "RaggedTensor":
        """From [B, (words), (pieces)] to [B, (pieces)]."""
        return RaggedTensor(self.values.values, self.values.row_splits[self.row_splits])

    def gather(self, index: np.ndarray) -> "RaggedTensor":
        """The rows with these numbers."""
        lengths = self.row_lengths()[index]
        splits = _splits(lengths)
        places = np.repeat(self.row_splits[index] - splits[:-1], lengths) + np.arange(splits[-1])
        return RaggedTensor(gather(self.values, places), splits)

    def to_tensor(self, default_value: Any = 0, shape: Any = (None, None)) -> np.ndarray:
        """Dense [B, S], with the default value after the end of each row."""
        lengths = self.row_lengths()
        width = shape[1] or max(lengths, default=0)
        found = np.full((self.nrows(), width), default_value, self.values.dtype)
        inside = np.arange(width) < lengths[:, None]
        found[inside] = self.values
        return found

    def to_list(self) -> list:
        return [row.to_list() if isinstance(row, RaggedTensor) else row.tolist() for row in self]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):  # [:, :count]
            lengths = np.minimum(self.row_lengths(), key[1].stop)
            places = _ragged_range(self.row_starts(), self.row_starts() + lengths)
            return places.with_values(self.values[places.values])
        if isinstance(key, slice):
            return self.gather(np.arange(self.nrows())[key])
        return self.values[self.row_splits[key] : self.row_splits[key + 1]]

    def __len__(self) -> int:
        return self.nrows()

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in np.arange(self.nrows()))

    def __repr__(self) -> str:
        return f"RaggedTensor({self.to_list()})"


def _ragged_range(starts: Any, limits: Any) -> RaggedTensor:
    lengths = np.maximum(limits - starts, 0)
    splits = _splits(lengths)
    return RaggedTensor((np.repeat(starts - splits[:-1], lengths) + np.arange(splits[-1])).astype(int32), splits)


def _ragged_constant(rows: Any, dtype: Any, ragged_rank: int | None = None) -> Any:
    """Nested lists as ragged; of one level only, an array."""
    if not any(isinstance(row, list | tuple | np.ndarray) for row in rows):
        if ragged_rank:
            raise ValueError(f"a list of numbers in place of rows: {rows!r}")
        found = np.asarray(rows, object if any(isinstance(x, str | bytes) for x in rows) else None)
        if found.size and found.dtype.kind not in "iu":
            raise TypeError(f"values that are not whole numbers: {rows!r}")
        return found.astype(dtype)
    if not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        raise ValueError(f"lists and numbers side by side: {rows!r}")
    values = _ragged_constant([x for row in rows for x in row], dtype)
    return RaggedTensor(values, _splits([len(row) for row in rows]))


ragged = SimpleNamespace(range=_ragged_range, constant=_ragged_constant)
