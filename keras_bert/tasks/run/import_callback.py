"""Callbacks of a run by their import path."""

import importlib
import json
import re
import sys
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import Any


def callback_path(given: str) -> tuple[str, str, dict[str, Any]]:
    """The module, the name and the arguments of a callback. Needs no Keras.

    >>> callback_path('keras.callbacks:EarlyStopping={"patience": 2}')
    ('keras.callbacks', 'EarlyStopping', {'patience': 2})
    """
    path, _, arguments = given.partition("=")
    module, _, name = path.partition(":")
    try:
        found = json.loads(arguments or "{}")
    except ValueError as error:
        raise _cannot_be_made(given, str(error)) from None
    if not (module and name and isinstance(found, dict)):
        raise _cannot_be_made(given, "not MODULE:NAME or MODULE:NAME={...}")
    package = module.partition(".")[0]
    if not package or (package not in sys.modules and find_spec(package) is None):
        raise _cannot_be_made(given, f"there is no module {package!r}")
    return module, name, found


def callback_of(given: str) -> Any:
    """The callback that `package.module:Name` names, or `package.module:Name={"argument": 1}` with arguments in JSON.

    >>> callback_of('keras.callbacks:EarlyStopping={"monitor": "val_loss", "patience": 2}').patience
    2
    """
    from keras.callbacks import Callback

    module, name, arguments = callback_path(given)
    try:
        callback = getattr(importlib.import_module(module), name)(**arguments)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise _cannot_be_made(given, str(error)) from None
    if not isinstance(callback, Callback):
        raise TypeError(
            f"{module}:{name} is not a subclass of keras.callbacks.Callback. Name one that is. Received: {given!r}, "
            f"which is of the type {type(callback).__name__}"
        )
    return callback


def check_callback(given: str) -> None:
    """Refuse a class that its module does not have, as far as the sources tell. It imports nothing."""
    module, name, _ = callback_path(given)
    package, *parts = module.split(".")
    spec = None if package in sys.modules else find_spec(package)
    for part in (*parts, name):
        if spec is None:
            return
        inner = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations or [])
        if inner is None and not _may_define(spec, part):
            raise _cannot_be_made(given, f"{spec.name} has no {part!r}")
        spec = inner


def _may_define(spec: ModuleSpec, name: str) -> bool:
    """Whether the source of a module has a name, or ways to define others."""
    source = spec.loader.get_source(spec.name) if isinstance(spec.loader, InspectLoader) else None
    ways = rf"import \*|\b(?:__getattr__|globals|setattr|exec|{re.escape(name)})\b"
    return source is None or re.search(ways, source) is not None


def _cannot_be_made(given: str, why: str) -> ValueError:
    return ValueError(
        f"The callback {given.partition('=')[0]} cannot be made. Name an importable class as package.module:Name, with "
        f'arguments as in package.module:Name={{"patience": 2}}. Received: {given!r} ({why})'
    )
