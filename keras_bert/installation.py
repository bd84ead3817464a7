"""What is installed. `keras_bert/__init__.py` imports it first, so that it is checked first."""

import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any


def _refuse_old_package() -> None:
    """Raises an error if the abandoned package keras-bert is installed, whose folder is keras_bert too."""
    try:
        distribution("keras-bert")
    except PackageNotFoundError:
        return
    raise ImportError(
        "The abandoned package keras-bert is installed too, and both packages write into the folder keras_bert. "
        "Run: pip uninstall -y keras-bert keras3-bert. Then install keras3-bert again, as you did before."
    )


def _check_jax() -> None:
    """Raises an error if JAX is Keras's backend and cannot be imported; Keras would show a traceback of its own."""
    if os.environ.get("KERAS_BACKEND") != "jax":
        return
    try:
        import_module("jax")
    except (ImportError, RuntimeError) as error:  # RuntimeError: jaxlib is of a version that does not fit
        raise ImportError(
            "KERAS_BACKEND=jax needs the packages jax and jaxlib, in versions that fit together. "
            f"Run: pip install --upgrade jax jaxlib. Received: {error}"
        ) from None


def installed(*modules: str) -> bool:
    """Whether all of these modules can be imported."""
    return all(find_spec(name) is not None for name in modules)


def has_tensorflow(*more: str) -> bool:
    """Whether TensorFlow and `more` packages can be imported."""
    return installed("tensorflow", *more)


def need_tensorflow(what: str, *more: str) -> None:
    """Raise an error if TensorFlow, or one of `more` packages, is missing; `what` needs it.

    >>> need_tensorflow("`keras_bert.export`")
    """
    missing = [name for name in ("tensorflow", *more) if find_spec(name) is None]
    if missing:
        names = " ".join(name.replace("_", "-") for name in missing)
        raise ImportError(
            f"{what} needs TensorFlow, but the module {missing[0]} cannot be imported. Run: pip install {names}. "
            f"Received: no module {missing[0]!r}"
        )


def need(module: str, what: str, extra: str) -> Any:
    """A module of an optional package; without it, an error with the extra that installs it. `what` needs it.

    >>> need("no_such", "Reading .zst files", "pretrain")
    Traceback (most recent call last):
    ImportError: Reading .zst files needs the package no_such. Run: pip install 'keras3-bert[pretrain]'. Received: ...
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{what} needs the package {module.partition('.')[0]}. Run: pip install 'keras3-bert[{extra}]'. "
            f"Received: {error}"
        ) from None


_refuse_old_package()
_check_jax()
