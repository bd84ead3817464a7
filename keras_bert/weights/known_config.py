"""known_config: the config of a model, where it is known without reading the weights. Needs no Keras."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert.config import BertConfig
from keras_bert.storage import read_json
from keras_bert.weights import zoo
from keras_bert.weights.keras_archive import dicts_with, keras_config


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


def bert_configs(value: Any) -> Iterator[BertConfig]:
    """The configs of encoders that are anywhere in a model's config."""
    for found in dicts_with(value, "vocab_size", "hidden_size", "num_hidden_layers"):
        yield BertConfig(**found)
