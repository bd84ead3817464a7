"""The task that a run, a .keras file or an export holds, as far as its files tell without Keras."""

from pathlib import Path
from typing import Any

from keras_bert.storage import json_list, read_json
from keras_bert.tasks.run.run_folder import LABELS, SETTINGS_FILE, folder_of
from keras_bert.weights.export_folder import EXTRA, TASK, find
from keras_bert.weights.keras_archive import dicts_with, keras_config

COMMANDS = {  # by the name under which Keras saves the class
    "keras_bert>TextClassifier": "classify",
    "keras_bert>TextRegressor": "regress",
    "keras_bert>TokenTagger": "tag",
    "keras_bert>QuestionAnswerer": "answer",
    "keras_bert>MultipleChoice": "choose",
    "keras_bert>SentenceEmbedder": "embed",
}


def known_command(source: str | Path) -> str | None:
    """The word of the task on the command line; None where only the loader finds it."""
    if kind := read_json(folder_of(source) / SETTINGS_FILE).get("kind"):
        return kind
    saved = next(dicts_with(_saved(source), "registered_name"), {})
    return COMMANDS.get(str(saved.get("registered_name")))


def known_labels(source: str | Path) -> list[str] | None:
    """The labels of the task; None if it has none, or if only the loader finds them."""
    file = folder_of(source) / LABELS
    if file.is_file():
        return json_list(file.read_bytes(), file)
    labels = next(dicts_with(_saved(source), "labels"), {}).get("labels")
    return labels if isinstance(labels, list) else None


def _saved(source: str | Path) -> Any:
    """What Keras has saved of the class and its settings."""
    export = find(Path(source))
    return keras_config(Path(source)) if export is None else read_json(export / EXTRA / TASK)
