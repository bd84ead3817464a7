"""The last step of a run with `--calibrate`: the finished classifier is calibrated on the validation rows."""

from pathlib import Path
from typing import Any

from keras_bert.tasks.metrics.scores import scores
from keras_bert.tasks.readers import Rows
from keras_bert.weights.keras_file import read_keras


def calibrated(path: Path, rows: Rows, batch_size: int, **options: Any) -> dict[str, Any]:
    """Calibrate the classifier in a file; returns what was `set`, and the scores of the rows with it.

    options: of the scores.
    """
    task = read_keras(path, compile=False)
    found = task.calibrate(rows.x, rows.y, batch_size)
    task.save(path)
    return {"set": found, "valid": scores(task, rows.x, rows.y, batch_size=batch_size, **options)}
