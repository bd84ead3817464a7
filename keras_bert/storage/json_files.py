"""JSON files."""

import json
import operator
import os
from typing import Any

from keras_bert.storage.files import exists, read_bytes, write_text
from keras_bert.storage.paths import is_remote


def write_json(path: str | os.PathLike, data: Any) -> None:
    """Write a JSON file; an interrupted write leaves the old one. Whole numbers may be numpy's."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, default=_whole) + "\n")


def as_read(data: Any) -> Any:
    """What `read_json` returns of data that `write_json` wrote.

    >>> as_read({"columns": ("text", 0)})
    {'columns': ['text', 0]}
    """
    return json.loads(json.dumps(data, default=_whole))


def _whole(value: Any) -> int:
    """A whole number of numpy in Python's type."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"A value of the type {type(value).__name__} cannot be written as JSON. Use numbers, strings, lists and "
            f"dicts. Received: {value!r}"
        ) from None


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file; {} if there is no file."""
    if not is_remote(path) and os.path.lexists(path) and not os.path.isfile(path):
        raise ValueError(
            f"{os.path.basename(path)} cannot be read: it is a broken link, a folder or a device. Restore the file, or "
            f"remove what is in its place. Received: {os.fspath(path)}"
        )
    return json_object(read_bytes(path), path) if exists(path) else {}


def json_object(content: bytes, path: str | os.PathLike) -> dict[str, Any]:
    """The object in the content of a JSON file; an error that names the file if it holds anything else.

    >>> json_object(b'{"a": 1}', "settings.json")
    {'a': 1}
    """
    return _parsed(content, path, dict, "one JSON object")


def json_list(content: bytes, path: str | os.PathLike) -> list[Any]:
    return _parsed(content, path, list, "a list in JSON")


def _parsed(content: bytes, path: str | os.PathLike, kind: type, wanted: str) -> Any:
    name = os.path.basename(path)
    try:
        data = json.loads(content.decode("utf-8-sig"))  # Windows writes a byte order mark
    except (ValueError, RecursionError) as error:  # broken JSON or UTF-8, or a number of thousands of digits
        raise ValueError(f"{name} must be JSON. Write or download it again. Received: {path} ({error})") from None
    if not isinstance(data, kind):
        raise ValueError(
            f"{name} must hold {wanted}. Write or download it again. Received: {type(data).__name__} in {path}"
        )
    return data
