"""The last step of a run with `--calibrate`: the finished classifier is calibrated on the validation rows."""

from pathlib import Path
from typing import Any

from keras_bert.tasks.readers import Rows
from keras_bert.weights.keras_file import read_keras


def calibrated(path: Path, rows: Rows, batch_size: int, **options: Any) -> dict[str, Any]:
    """Calibrate the classifier in a file; returns what was `set`, and the scores and details of the rows with it.

    options: of the scores.
    """
    task = read_keras(path, compile=False)
    found = task.calibrate(rows.x, rows.y, batch_size)
    task.save(path)
    examples = task.examples(rows.x)
    logits = task.logits(examples, batch_size)
    details = task.details(rows.y, examples, logits, **options)
    return {"set": found, "valid": task.report_logits(rows.y, examples, logits, **options), **details}
