"""Flax's flax_model.msgpack: nested names and arrays, without anything that could run code."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.installation import need
from keras_bert.weights.tables import Stored
from keras_bert.wording import first_line

_ARRAY = 1  # Flax's extension type for (shape, dtype, bytes)
_DTYPES = ("float32", "float16", "bfloat16", "float64")
_MOST_NAMES, _MOST_DEPTH, _MOST_CHARACTERS = 4096, 16, 1024


def stored_weights(path: Path) -> dict[str, Stored]:
    """The file's arrays by their names, joined by dots."""
    msgpack = need("msgpack", f"Reading {path}", "flax")
    size = path.stat().st_size
    # Without these limits a few bytes that announce long lists would take all memory.
    limits = {"max_buffer_size": size + 1, "max_ext_len": size, "max_bin_len": 0, "max_array_len": 0}
    limits |= {"max_map_len": _MOST_NAMES, "max_str_len": _MOST_CHARACTERS}
    stored: dict[str, Stored] = {}
    try:
        with open(path, "rb") as file:
            unpacker = msgpack.Unpacker(file, ext_hook=partial(_array, path), **limits)
            _flatten(path, unpacker.unpack(), (), stored)
            if (end := unpacker.tell()) != size:
                raise _refusal(path, f"{size - end} bytes after {len(stored)} weights")
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        if not isinstance(error, _NoWeights):
            error = _refusal(path, f"a file of {size} bytes, which cannot be read to its end ({first_line(error)})")
        raise ValueError(str(error)) from None
    return stored


class _NoWeights(ValueError):
    """The file holds something else than weights."""


def _refusal(path: Path, received: str) -> _NoWeights:
    return _NoWeights(
        f"{path} is damaged, or holds something other than weights. Download or save it again. Received: {received}"
    )


def _flatten(path: Path, entry: Any, names: tuple[str, ...], stored: dict[str, Stored]) -> None:
    if isinstance(entry, np.ndarray):
        stored[".".join(names)] = Stored.of(entry)
    elif isinstance(entry, dict) and len(names) < _MOST_DEPTH:
        for name, value in entry.items():
            _flatten(path, value, (*names, str(name)), stored)
    else:
        raise _refusal(path, f"{'.'.join(names) or 'the whole file'} is of type {type(entry).__name__}")


def _array(path: Path, code: int, data: bytes) -> np.ndarray:
    import ml_dtypes  # noqa: F401, which registers bfloat16
    import msgpack

    if code != _ARRAY:
        raise _refusal(path, f"an entry of the extension type {code}")
    shape, name, content = msgpack.unpackb(data, max_array_len=8, max_map_len=0)
    dtype = np.dtype(name) if name in _DTYPES else None
    if dtype is None or math.prod(shape) * dtype.itemsize != len(content):
        raise _refusal(path, f"an array {shape} of {name} in {len(content)} bytes")
    return np.frombuffer(content, dtype).reshape(shape)
