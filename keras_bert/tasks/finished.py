"""A finished directory of `finetune`, or any saved task: asked and scored."""

from pathlib import Path

import keras

from keras_bert.tasks.finetune import MODEL, SETTINGS, Settings
from keras_bert.tasks.readers import Reading
from keras_bert.tasks.task import Task

CHUNK = 256  # lines that are read before the first of them is answered


def load_finished(source: Path) -> tuple[Task, Reading]:
    """The task of a finished directory or of a .keras file, and how its files are read."""
    record = source / SETTINGS
    reading = Settings.from_json(record).reading if record.is_file() else Reading()
    path = source / MODEL if source.is_dir() else source
    if not path.is_file():
        raise FileNotFoundError(
            "A model must be a finished folder of `keras-bert finetune`, or the .keras file of a task. "
            f"Received: {str(source)!r}"
        )
    return keras.models.load_model(path, compile=False), reading
