"""Exact search: the vectors that are nearest to a query, by their cosines."""

from typing import Any

import numpy as np

from keras_bert.checks import count_of

CHUNK = 16_384  # vectors at a time, so that an array on disk is never in memory as a whole
QUERIES = 1024  # at a time


def nearest(queries: Any, vectors: Any, top: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the `top` nearest vectors to each query, the nearest first, and their cosines; both [Q, top].

    Of equally near vectors, the earlier one comes first. Fewer are returned if there are fewer vectors.

    Args:
        queries: [Q, H].
        vectors: [n, H], also an array on disk: `np.load("vectors.npy", mmap_mode="r")`.

    >>> import keras_bert
    >>> queries, vectors = np.array([[1.0, 0.0]]), np.array([[0.0, 2.0], [3.0, 0.0], [1.0, 1.0]])
    >>> numbers, cosines = keras_bert.nearest(queries, vectors, top=2)
    >>> numbers.tolist(), float(cosines[0, 0])
    ([[1, 2]], 1.0)
    """
    top = count_of("top", top, 5)
    if np.ndim(queries) != 2 or np.ndim(vectors) != 2 or np.shape(queries)[1] != np.shape(vectors)[1]:
        raise ValueError(
            "`queries` and `vectors` must be two matrices of the same width. Embed both with the same model. "
            f"Received: shapes {np.shape(queries)} and {np.shape(vectors)}"
        )
    if len(queries) > QUERIES:
        parts = [nearest(queries[start : start + QUERIES], vectors, top) for start in range(0, len(queries), QUERIES)]
        return np.concatenate([numbers for numbers, _ in parts]), np.concatenate([cosines for _, cosines in parts])
    queries = unit(queries)
    if not np.isfinite(queries).all():
        raise ValueError(
            "`queries` has NaN, infinite or far too large numbers. Embed the queries again. Received: "
            f"{(~np.isfinite(queries).all(axis=1)).sum()} such queries"
        )
    numbers = np.zeros((len(queries), 0), "int64")
    cosines = np.zeros((len(queries), 0), "float32")
    for start in range(0, len(vectors), CHUNK):
        found = queries @ unit(vectors[start : start + CHUNK]).T  # [Q, C]
        new = np.broadcast_to(np.arange(start, start + found.shape[1]), found.shape)
        cosines = np.concatenate([cosines, found], axis=1)
        numbers = np.concatenate([numbers, new], axis=1)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :top]
        cosines, numbers = (np.take_along_axis(x, best, axis=1) for x in (cosines, numbers))
    return numbers, cosines


def unit(vectors: Any) -> np.ndarray:
    """Vectors [..., H] at length 1, in float32."""
    vectors = np.asarray(vectors, "float32")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def cosines_of_pairs(vectors: np.ndarray) -> np.ndarray:
    """The cosine of the two vectors of each pair, from [n, 2, H] to [n]."""
    return unit(vectors).prod(axis=1).sum(axis=-1)
