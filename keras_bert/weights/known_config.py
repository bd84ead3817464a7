"""known_config: the config of a model, where it is known without reading the weights. Needs no Keras."""

import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.storage import only_file, read_json
from keras_bert.weights import zoo
from keras_bert.weights.weights_h5 import WEIGHTS

_LARGEST = 10_000_000  # bytes of a config in a .keras file, which may unpack to any size


def known_config(source: str) -> BertConfig | None:
    """The config of a release, of a folder or of a .keras file; None where only the loader of the weights finds it."""
    if release := zoo.find(source):
        return release.config
    path = Path(source)
    for file in (path / "bert_config.json", path / "config.json"):
        if file.is_file() and "num_hidden_layers" in (data := read_json(file)):
            return BertConfig.from_dict(data, str(file))
    try:
        return next(bert_configs(keras_config(path)), None)
    except (TypeError, ValueError):
        return None  # the loader says what is wrong with the file


def keras_file(path: Path) -> Path | None:
    """The .keras file that a path is, or that is the only one in it; None for a folder with our weights."""
    if path.is_dir():
        return None if (path / WEIGHTS).is_file() else only_file(path, "*.keras")
    return path if path.suffix == ".keras" and path.is_file() else None


def keras_config(path: Path) -> Any:
    """The config in a .keras file, or in the only one in a folder; None where there is none that can be read."""
    model = only_file(path, "*.keras") if path.is_dir() else path
    if model is None or not zipfile.is_zipfile(model):
        return None
    try:
        with zipfile.ZipFile(model) as archive:
            if "config.json" not in archive.namelist() or archive.getinfo("config.json").file_size > _LARGEST:
                return None
            return json.loads(archive.read("config.json"))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, TypeError, ValueError):
        return None  # the loader says what is wrong with the file


def bert_configs(value: Any) -> Iterator[BertConfig]:
    """The configs of encoders that are anywhere in a model's config."""
    for found in dicts_with(value, "vocab_size", "hidden_size", "num_hidden_layers"):
        yield BertConfig(**found)


def dicts_with(value: Any, *names: str) -> Iterator[dict[str, Any]]:
    """The dicts that have these keys, anywhere in a model's config."""
    if isinstance(value, dict) and value.keys() >= {*names}:
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from dicts_with(part, *names)
