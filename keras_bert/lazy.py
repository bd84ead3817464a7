"""Lazy modules: TensorFlow takes seconds to import, and is not installed everywhere."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any


class Lazy:
    """The module that a function returns, which is called when a name of the module is used."""

    def __init__(self, module: Callable[[], Any]) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module(), name)


if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = Lazy(lambda: import_module("tensorflow"))

__all__ = ["Lazy", "tf"]
