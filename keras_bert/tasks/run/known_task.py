"""The task that a run, a .keras file or an export holds, as far as its files tell without Keras."""

from pathlib import Path
from typing import Any

from keras_bert.storage import json_list, read_json
from keras_bert.tasks.run.run_folder import LABELS, folder_of
from keras_bert.text_encoding import composed
from keras_bert.weights.export_folder import EXTRA, TASK, saved_model_at
from keras_bert.weights.keras_archive import dicts_with, keras_config


def known_class(source: str | Path) -> str | None:
    """The name under which Keras saves the class of the task; None where only the loader finds it."""
    name = _saved(source, "registered_name")
    return name if isinstance(name, str) else None


def known_labels(source: str | Path) -> list[str] | None:
    """The labels of the task; None if it has none, or if only the loader finds them."""
    file = folder_of(source) / LABELS
    labels = json_list(file.read_bytes(), file) if file.is_file() else _saved(source, "labels")
    return list(map(composed, labels)) if isinstance(labels, list) else None


def _saved(source: str | Path, name: str) -> Any:
    """What Keras has saved under this name, of the class or its settings; None if there is nothing."""
    export = saved_model_at(Path(source))
    config = keras_config(Path(source)) if export is None else read_json(export / EXTRA / TASK)
    return next(dicts_with(config, name), {}).get(name)
