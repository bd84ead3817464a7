"""Callbacks of a run by their import path."""

import importlib
import json

import keras


def callback_of(given: str) -> keras.callbacks.Callback:
    """The callback that `package.module:Name` names, or `package.module:Name={"argument": 1}` with arguments in JSON.

    >>> callback_of('keras.callbacks:EarlyStopping={"monitor": "val_loss", "patience": 2}').patience
    2
    """
    path, _, arguments = given.partition("=")
    module, _, name = path.partition(":")
    try:
        kind = getattr(importlib.import_module(module), name)
        callback = kind(**json.loads(arguments or "{}"))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"The callback {path} cannot be made. Name an importable class as package.module:Name, with arguments as "
            f'in package.module:Name={{"patience": 2}}. Received: {given!r} ({error})'
        ) from None
    if not isinstance(callback, keras.callbacks.Callback):
        raise TypeError(
            f"{path} is not a subclass of keras.callbacks.Callback. Name one that is. Received: {given!r}, "
            f"a {type(callback).__name__}"
        )
    return callback
