"""The TensorFlow ops that `text` and the decoders of tasks use, in numpy, for environments without TensorFlow Text.

Packing, windows and decoding are written once, on the namespace that `tensors.tensors()` returns: TensorFlow, or this
module. Names, arguments and results are those of TensorFlow. Strings are UTF-8 `bytes` in arrays of objects.
"""

import contextlib
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from keras_bert.text.numpy_examples import FixedLenFeature, InvalidArgumentError, parse_example
from keras_bert.text.numpy_ragged import RaggedTensor, ragged_constant, ragged_range, splits_of
from keras_bert.text.philox import random_bits

# === Types, and making arrays ===

int32, int64, float32, float64, string = np.int32, np.int64, np.float32, np.float64, np.object_
bool = np.bool_
Tensor = np.ndarray
newaxis = None
ragged = SimpleNamespace(range=ragged_range, constant=ragged_constant)
# With the same arguments:
ones_like, zeros_like, pad, sort, reduce_max, reduce_any = np.ones_like, np.zeros_like, np.pad, np.sort, np.max, np.any
repeat, equal = np.repeat, np.equal


class TensorSpec(NamedTuple):
    """The shape and the type of an argument."""

    shape: Any = None
    dtype: Any = float32
    name: str | None = None


def _array(x: Any, like: Any = None) -> np.ndarray:
    """An array; Python's own numbers get the type of the array `like`, or else TensorFlow's defaults."""
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x)
    if (x := np.asarray(x)).dtype.kind in "SU":
        return constant(x.ravel().tolist(), string).reshape(x.shape)
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
    found = np.empty(len(x) if isinstance(x, list) else (), object)  # bytes are no sequence here
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


def identity(x: Any) -> Any:
    return x


def control_dependencies(checks: Any) -> Any:
    return contextlib.nullcontext()


def _assert_less_equal(x: Any, y: Any, message: str) -> None:
    if x > y:
        raise InvalidArgumentError(message)


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


def range(*limits: Any, dtype: Any = int32) -> np.ndarray:
    return np.arange(*limits, dtype=dtype)


# === Shapes ===


def shape(x: Any) -> np.ndarray:
    return np.array(np.shape(x), int32)


def size(x: Any) -> Any:
    return np.int32(np.size(x))


def reshape(x: Any, dims: Any) -> np.ndarray:
    return np.reshape(x, tuple(dims))


def sequence_mask(lengths: Any, width: Any) -> np.ndarray:
    return np.arange(width) < np.asarray(lengths)[..., None]


def stack(values: Sequence[Any], axis: int = 0) -> np.ndarray:
    return np.stack(_arrays(values), axis)


def unstack(x: Any, num: int | None = None, axis: int = 0) -> list[np.ndarray]:
    return list(np.moveaxis(x, axis, 0))


def concat(values: Sequence[Any], axis: int) -> Any:
    if isinstance(values[0], RaggedTensor) and axis:  # side by side
        rows = values[0].nrows()
        order = np.arange(len(values) * rows).reshape(-1, rows).T.ravel()
        joined = concat(values, 0).gather(order)
        return RaggedTensor(joined.values, joined.row_splits[:: len(values)])
    if isinstance(values[0], RaggedTensor):
        lengths = np.concatenate([x.row_lengths() for x in values])
        return RaggedTensor(concat([x.values for x in values], 0), splits_of(lengths))
    return np.concatenate(_arrays(values), axis)


# === Numbers ===


def where(condition: Any, x: Any = None, y: Any = None) -> np.ndarray:
    return np.argwhere(condition) if x is None else np.where(condition, *_arrays([x, y]))


def maximum(x: Any, y: Any) -> np.ndarray:
    return np.maximum(*_arrays([x, y]))


def minimum(x: Any, y: Any) -> np.ndarray:
    return np.minimum(*_arrays([x, y]))


def clip_by_value(x: Any, low: Any, high: Any) -> np.ndarray:
    return np.clip(x, low, high).astype(x.dtype)


def cumsum(x: Any, axis: int = 0, exclusive: Any = False) -> np.ndarray:
    x = _array(x)
    found = np.cumsum(x, axis, dtype=x.dtype)
    return found - x if exclusive else found


def reduce_sum(x: Any, axis: Any = None, keepdims: Any = False) -> np.ndarray:
    return np.sum(x, axis, dtype=x.dtype, keepdims=keepdims)


def argmax(x: Any, axis: int, output_type: Any = int64) -> np.ndarray:
    return np.argmax(x, axis).astype(output_type)


def argsort(x: Any, direction: str = "ASCENDING", stable: Any = False) -> np.ndarray:
    return np.argsort(x if direction == "ASCENDING" else -x, axis=-1, kind="stable").astype(int32)


def searchsorted(x: Any, values: Any) -> np.ndarray:
    return np.searchsorted(x, values).astype(int32)


# === Places ===


def gather(x: Any, index: Any, batch_dims: int = 0) -> Any:
    if isinstance(x, RaggedTensor):
        return x.gather(np.asarray(index))
    if batch_dims and index.ndim < x.ndim:
        return np.take_along_axis(x, index[:, None], -1)[:, 0]
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


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))  # does not overflow


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
    bincount=lambda x, minlength, dtype: np.bincount(x, minlength=minlength).astype(dtype),
    count_nonzero=lambda x, axis, dtype: np.count_nonzero(x, axis).astype(dtype),
    is_inf=np.isinf,
    is_nan=np.isnan,
    top_k=_top_k,
)
nn = SimpleNamespace(softmax=_softmax)
raw_ops = SimpleNamespace(UniqueV2=_unique_rows)
io = SimpleNamespace(FixedLenFeature=FixedLenFeature, parse_example=parse_example)
debugging = SimpleNamespace(assert_less_equal=_assert_less_equal)
strings = SimpleNamespace(
    length=lambda x: np.array([len(text) for text in x], int32),
    regex_replace=lambda x, pattern, rewrite: constant(
        [re.sub(pattern, rewrite, text.decode("utf-8", "replace")).encode("utf-8") for text in x], string
    ),
)


# === Random numbers ===


def _uniform(dims: Sequence[int], seed: Any) -> np.ndarray:
    bits = random_bits(seed, dims[0]) & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)  # of floats from 1 to 2
    return bits.view(float32) - float32(1)


random = SimpleNamespace(
    split=lambda seed, num: random_bits(seed, 2 * num).view(int32).reshape(num, 2), stateless_uniform=_uniform
)
