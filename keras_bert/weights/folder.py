"""A folder that appears whole or not at all."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_bert.storage import json_object
from keras_bert.weights.tables import listed


@contextmanager
def new_folder(path: str | os.PathLike) -> Iterator[Path]:
    """A temporary folder beside `path` to write into; it takes the name `path` when all went well."""
    path = Path(path)
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise FileExistsError(
            f"{path} is not a new or empty folder, so no model is written there. Choose another path, or empty it. "
            f"Received: {path}"
        )
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        os.replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; {} where there is no file."""
    return json_object(path.read_bytes(), path) if path.is_file() else {}


def write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def one_file(folder: Path, pattern: str) -> Path | None:
    """The file of this pattern; an error if there are several."""
    found = sorted(folder.glob(pattern))
    if len(found) > 1:
        raise ValueError(
            f"{folder} holds several models. Pass the path of the one to load. "
            f"Received: {listed([x.name for x in found])}"
        )
    return found[0] if found else None
