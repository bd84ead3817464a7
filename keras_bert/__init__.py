"""BERT for Keras 3: text in, vectors and answers out, from a vocabulary to a served model."""

from importlib.metadata import PackageNotFoundError, distribution

from keras_bert.version import __version__

__all__ = ["__version__"]


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
