"""A .keras file as the zip that it is: where it is, and the config of its model. Needs no Keras."""

import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert.storage import only_file
from keras_bert.weights.weights_h5 import WEIGHTS

_LARGEST = 10_000_000  # bytes of a config, which may unpack to any size


def keras_file(path: Path) -> Path | None:
    """The .keras file that a path is, or that is the only one in it; None for a folder with our weights."""
    if path.is_dir():
        return None if (path / WEIGHTS).is_file() else only_file(path, "*.keras")
    return path if path.suffix == ".keras" and path.is_file() else None


def keras_config(path: Path) -> Any:
    """The config in the `keras_file` at a path; None where there is none that can be read."""
    file = keras_file(path)
    if file is None or not zipfile.is_zipfile(file):
        return None
    try:
        with zipfile.ZipFile(file) as archive:
            if "config.json" not in archive.namelist() or archive.getinfo("config.json").file_size > _LARGEST:
                return None
            return json.loads(archive.read("config.json"))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, TypeError, ValueError):
        return None  # the loader says what is wrong with the file


def dicts_with(value: Any, *names: str) -> Iterator[dict[str, Any]]:
    """The dicts that have these keys, anywhere in a model's config."""
    if isinstance(value, dict) and value.keys() >= {*names}:
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from dicts_with(part, *names)
