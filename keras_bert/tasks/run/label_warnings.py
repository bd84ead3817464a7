"""warn_of_labels: what looks wrong about the labels of the training rows, though the run can use them."""

import logging
import shlex
from pathlib import Path

from keras_bert.tasks.readers import Rows
from keras_bert.tasks.rows.labels import is_numeral
from keras_bert.wording import listed, plural

logger = logging.getLogger("keras_bert")

SEPARATORS = (",", ";", "|")  # of several labels of one text, as many files have them
MISSING = ("NA", "N/A", "NaN", "nan", "<NA>", "null", "NULL")


def warn_of_labels(rows: Rows, labels: list[str], separator: str | None) -> None:
    """Say that a label may be the name of its column, or several labels, or mean the same as another."""
    is_first_line = Path(rows.path).suffix.lower() in (".tsv", ".csv") and rows.ids[0] == 1
    if is_first_line and len(labels) == len(rows) > 2 and labels.count(labels[0]) == 1:
        logger.warning(
            "The label of line 1 of %s, %r, occurs nowhere else. If this line has the names of the columns, add "
            "--header.", rows.path, labels[0],
        )  # fmt: skip
    known = sorted({*labels})
    for mark in () if separator else SEPARATORS:
        names = {name.strip() for label in known for name in label.split(mark)}
        several = next((label for label in known if mark in label), None)
        if several is not None and len(names) < len(known):  # so that a comma inside a name does not count
            logger.warning(
                "The labels of %s are read as %d different ones, such as %r. If %r separates several labels of one "
                "text, add --separator %s.",
                rows.path, len(known), several, mark, shlex.quote(mark),
            )  # fmt: skip
    missing = [label for label in known if label in MISSING]
    if 0 < len(missing) < len(known):
        logger.warning(
            "%s has the %s %s, which often means that a value is missing. If so, delete these rows.",
            rows.path, plural("label", len(missing)), listed(list(map(repr, missing))),
        )  # fmt: skip
    by_letters: dict[str, list[str]] = {}
    for label in known:
        by_letters.setdefault(label.lower(), []).append(label)
    if alike := next((names for names in by_letters.values() if len(names) > 1), None):
        logger.warning(
            "The labels %s of %s differ only in capital letters. If they mean the same, write them alike.",
            listed(list(map(repr, alike))), rows.path,
        )  # fmt: skip
    if 0 < sum(map(is_numeral, known)) < len(known):
        logger.warning(
            "The labels of %s are numbers and words: %s. If two of them mean the same, write them alike.",
            rows.path, listed(list(map(repr, known)), 8),
        )  # fmt: skip
