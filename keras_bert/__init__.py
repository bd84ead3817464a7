"""BERT for Keras 3: text in, vectors and answers out, from a vocabulary to a served model."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from keras_bert.version import __version__

__all__ = ["__version__", "list_models", "load"]


def _refuse_old_package() -> None:
    try:
        distribution("keras-bert")
    except PackageNotFoundError:
        return
    raise ImportError(
        "The abandoned package keras-bert is installed; it writes into the same folder keras_bert as this one. "
        "Run: pip uninstall -y keras-bert keras3-bert && pip install keras3-bert"
    )


_refuse_old_package()

_LAZY = {"list_models": "keras_bert.weights.zoo", "load": "keras_bert.weights.load"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
