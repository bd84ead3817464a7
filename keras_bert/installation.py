"""Checks the installation. `keras_bert/__init__.py` imports it first."""

from importlib.metadata import PackageNotFoundError, distribution


def _refuse_old_package() -> None:
    """Raises an error if the abandoned package keras-bert is installed, whose folder is keras_bert too."""
    try:
        distribution("keras-bert")
    except PackageNotFoundError:
        return
    raise ImportError(
        "The abandoned package keras-bert is installed too, and both packages write into the folder keras_bert. "
        "Run: pip uninstall -y keras-bert keras3-bert && pip install keras3-bert"
    )


_refuse_old_package()
