"""without_the_package: import parts of `keras_bert` that need no Keras, which takes many seconds to import."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


@contextmanager
def without_the_package() -> Iterator[None]:
    """Within it, modules of `keras_bert` that import neither Keras nor TensorFlow can be imported without the package.

    Its __init__ imports Keras. Empty modules with the same paths replace it, and are removed again.
    """
    if "keras_bert" in sys.modules:
        yield
        return
    root = Path(str(find_spec("keras_bert").origin)).parent  # type: ignore[union-attr]
    for name in ("keras_bert", "keras_bert.tasks", "keras_bert.tasks.metrics"):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "keras_bert"]:
            del sys.modules[name]


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the package logs, since the command does the same again with Keras, and logs it then."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
