"""Exact search against a sort of all cosines."""

import sys

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from keras_bert import nearest


def test_nearest(monkeypatch, tmp_path):
    """In chunks, from an array on disk, with equal vectors, which keep their order."""
    monkeypatch.setattr(sys.modules[nearest.__module__], "CHUNK", 7)
    rng = np.random.default_rng(0)
    vectors, queries = rng.standard_normal((50, 4)).astype("float32"), rng.standard_normal((3, 4))
    vectors[40] = 2 * vectors[3]
    np.save(tmp_path / "vectors.npy", vectors)
    numbers, cosines = nearest(queries, np.load(tmp_path / "vectors.npy", mmap_mode="r"), top=50)
    expected = cosine_similarity(queries, vectors)
    assert np.abs(cosines - -np.sort(-expected, axis=1)).max() <= 1e-6
    assert np.array_equal(np.sort(numbers, axis=1), np.tile(np.arange(50), (3, 1)))
    assert np.abs(np.take_along_axis(expected, numbers, axis=1) - cosines).max() <= 1e-6
    assert all(row.index(3) + 1 == row.index(40) for row in numbers.tolist())
    monkeypatch.setattr(sys.modules[nearest.__module__], "QUERIES", 2)
    assert nearest(queries.tolist(), vectors.tolist(), top=2)[0].tolist() == numbers[:, :2].tolist()


@pytest.mark.parametrize(("vectors", "top"), [(np.ones((0, 4)), 5), (np.ones((2, 4)), 5)])
def test_few_vectors(vectors, top):
    numbers, cosines = nearest(np.ones((1, 4)), vectors, top)
    assert numbers.shape == cosines.shape == (1, len(vectors))


def test_errors():
    with pytest.raises(ValueError, match=r"same width.*\(1, 4\) and \(2, 3\)"):
        nearest(np.ones((1, 4)), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"`queries` has NaN, infinite .*Received: 1 such"):
        nearest([[np.nan, 1.0]], np.ones((2, 2)))
    with pytest.raises(ValueError, match="top=0"):
        nearest(np.ones((1, 4)), np.ones((2, 4)), top=0)
    with pytest.raises(TypeError, match="`top` must be a whole number"):
        nearest(np.ones((1, 4)), np.ones((2, 4)), top=1.5)
