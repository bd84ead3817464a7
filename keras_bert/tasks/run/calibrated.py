"""The last step of a run with `--calibrate`: the finished classifier is calibrated on the validation rows."""

import logging
from pathlib import Path
from typing import Any

from keras_bert.tasks.readers import Rows
from keras_bert.weights.keras_file import read_keras

logger = logging.getLogger("keras_bert")


def calibrated(path: Path, rows: Rows, batch_size: int, before: dict[str, float], **options: Any) -> dict[str, Any]:
    """Calibrate the classifier in a file; returns what was `set`, and the scores and details of the rows with it.

    before: the scores of the rows without it. options: of the scores.
    """
    task = read_keras(path, compile=False)
    found = task.calibrate(rows.x, rows.y, batch_size)
    task.save(path)
    examples = task.examples(rows.x)
    logits = task.logits(examples, batch_size)
    details = task.details(rows.y, examples, logits, **options)
    after = task.report_logits(rows.y, examples, logits, **options)
    errors = [scores.get("calibration_error", 0.0) for scores in (before, after)]
    if errors[1] > errors[0]:
        logger.warning(
            "The temperature lowers the loss of the validation rows, but it raised their calibration error from "
            "%.4f to %.4f. Train without --calibrate, or with more rows or epochs.", *errors
        )  # fmt: skip
    return {"set": found, "valid": after, **details}
