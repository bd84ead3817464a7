"""TensorFlow's ragged tensors in numpy, as far as the package needs them."""

from collections.abc import Iterator
from typing import Any

import numpy as np


def splits_of(lengths: Any) -> np.ndarray:
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


class RaggedTensor:
    """Rows of different lengths: `values`, an array or again ragged, and the `row_splits` where each row begins."""

    def __init__(self, values: Any, row_splits: Any) -> None:
        self.values = values
        self.row_splits = np.asarray(row_splits, np.int64)

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, validate: Any = True) -> "RaggedTensor":
        return cls(np.asarray(values), row_splits)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any, validate: Any = True) -> "RaggedTensor":
        return cls(np.asarray(values), splits_of(row_lengths))

    @classmethod
    def from_value_rowids(cls, values: Any, value_rowids: Any, nrows: int, validate: Any = True) -> "RaggedTensor":
        return cls(values, splits_of(np.bincount(value_rowids, minlength=nrows)))

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
        return self.row_splits[1:] - self.row_splits[:-1]

    def row_starts(self) -> np.ndarray:
        return self.row_splits[:-1]

    def with_values(self, values: Any) -> "RaggedTensor":
        return RaggedTensor(values, self.row_splits)

    def merge_dims(self, outer: int, inner: int) -> "RaggedTensor":
        """From [B, (words), (pieces)] to [B, (pieces)]: TensorFlow's `merge_dims(1, 2)`, the only dimensions here."""
        return RaggedTensor(self.values.values, self.values.row_splits[self.row_splits])

    def gather(self, index: np.ndarray) -> "RaggedTensor":
        """The rows with these numbers."""
        starts = self.row_splits[:-1][index]
        lengths = self.row_splits[1:][index] - starts
        splits = splits_of(lengths)
        places = np.repeat(starts - splits[:-1], lengths) + np.arange(splits[-1])
        nested = isinstance(self.values, RaggedTensor)
        return RaggedTensor(self.values.gather(places) if nested else self.values[places], splits)

    def to_tensor(self, default_value: Any = None, shape: Any = (None, None)) -> np.ndarray:
        """Dense [B, S], with the default value, 0 or no bytes, after the end of each row."""
        lengths = self.row_lengths()
        width = shape[1] or max(lengths, default=0)
        empty = (b"" if self.dtype == object else 0) if default_value is None else default_value
        found = np.full((self.nrows(), width, *self.values.shape[1:]), empty, self.dtype)
        inside = np.arange(width) < lengths[:, None]
        found[inside] = self.values
        return found

    def to_list(self) -> list:
        return [row.to_list() if isinstance(row, RaggedTensor) else row.tolist() for row in self]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):  # [:, :count]
            lengths = np.minimum(self.row_lengths(), key[1].stop)
            places = ragged_range(self.row_starts(), self.row_starts() + lengths)
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


def ragged_range(starts: Any, limits: Any = None) -> RaggedTensor:
    if limits is None:
        starts, limits = np.zeros_like(starts), starts
    lengths = np.maximum(limits - starts, 0)
    splits = splits_of(lengths)
    return RaggedTensor((np.repeat(starts - splits[:-1], lengths) + np.arange(splits[-1])).astype(np.int32), splits)


def ragged_constant(rows: Any, dtype: Any, ragged_rank: int | None = None) -> Any:
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
    values = ragged_constant([x for row in rows for x in row], dtype)
    return RaggedTensor(values, splits_of([len(row) for row in rows]))
