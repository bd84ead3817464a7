"""A finished directory of `finetune`, or any saved task: asked and scored."""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import keras

from keras_bert.tasks.finetune import MODEL, SETTINGS, Settings
from keras_bert.tasks.kinds import KINDS, check_labels, kind_of
from keras_bert.tasks.metrics.scores import scores
from keras_bert.tasks.readers import Reading, Rows, read
from keras_bert.tasks.task import Task

CHUNK = 256  # lines that are read before the first of them is answered


def load_finished(source: Path) -> tuple[Task, Reading]:
    """The task of a finished directory or of a .keras file, and how its files are read."""
    record = source / SETTINGS
    reading = Settings.from_json(record).reading if record.is_file() else Reading()
    path = source / MODEL if source.is_dir() else source
    if not path.is_file():
        raise FileNotFoundError(
            f"A finished directory of `keras-bert finetune`, or a .keras file of a task, is needed. Received: {str(source)!r}"
        )
    return keras.models.load_model(path, compile=False), reading
