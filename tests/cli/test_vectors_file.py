"""The file of vectors that `keras-bert embed --output` writes."""

import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_bert_cli.vectors_file import read_vectors, write_vectors

BERT = SimpleNamespace(pooling="mean", weights=[keras.Variable(np.ones(3, "float32"))])


@pytest.mark.parametrize("shape", [(0, 4), (3, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_reads_the_file(tmp_path, shape, order):
    vectors = np.asarray(np.random.default_rng(0).normal(size=shape).astype("float32"), order=order)
    write_vectors(tmp_path / "v.npy", vectors, ["a"] * len(vectors), BERT)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), vectors)
    if len(vectors):
        np.testing.assert_array_equal(read_vectors(tmp_path / "v.npy"), vectors)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
def test_an_error_while_writing_says_why(tmp_path):
    """A limit on the size of files stands for a full disk: the system refuses to write more in both cases."""
    import resource

    vectors = np.zeros((1024, 1024), "float32")  # 4 MiB
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match=r"Could not write .*v\.npy: File too large"):
            write_vectors(tmp_path / "v.npy", vectors, ["a"] * 1024, BERT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
