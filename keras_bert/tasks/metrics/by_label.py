"""The scores of each label: a table for people and programs, and what it warns of."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.wording import listed, one_line

LEAST = 20  # rows, below which it can be chance that all get one label


def scores_by_label(true: Any, predicted: Any, labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of each label, how many rows have it (support) and how many are predicted to have it.

    true, predicted: 0 and 1 of each label, [n, C].

    >>> scores_by_label([[1, 0], [1, 0], [0, 1]], [[1, 0], [0, 1], [0, 1]], ["no", "yes"])["yes"]
    {'precision': 0.5, 'recall': 1.0, 'f1': 0.6666666666666666, 'support': 1, 'predicted': 2}
    """
    true, predicted = np.asarray(true, bool), np.asarray(predicted, bool)
    counts = zip(labels, (true & predicted).sum(0), true.sum(0), predicted.sum(0), strict=True)
    return {label: scores_of_counts(*found) for label, *found in counts}


def scores_of_counts(hits: int, wanted: int, found: int) -> dict[str, float]:
    """The scores of a label. wanted: the rows that have it; found: those predicted to have it; hits: those of both."""
    return {
        "precision": float(hits / max(found, 1)),
        "recall": float(hits / max(wanted, 1)),
        "f1": float(2 * hits / max(wanted + found, 1)),
        "support": int(wanted),
        "predicted": int(found),
    }


def one_sided(details: Mapping[str, Any], rows: int, *, weighted: bool = False) -> list[str]:
    """Warnings about labels that are predicted for all rows, or for none although rows have them.

    A tagger has words or entities in place of rows.

    details: of a task, see `Task.details`. weighted: the labels had weights in training.
    """
    by_label, plural = details.get("labels", {}), details.get("labels_of", "rows")
    unit = {"rows": "row", "words": "word", "entities": "entity"}.get(plural, "")
    count = rows if unit == "row" else sum(found["support"] for found in by_label.values())
    if count < LEAST or not unit:  # the labels of a user's own task may be of something else
        return []
    said = [
        f"Every {unit} is predicted as {label!r}, although {count - one['support']} of {count} do not have this label."
        for label, one in by_label.items()
        if unit != "entity" and one["predicted"] == count > one["support"]
    ]
    never = [repr(label) for label, found in by_label.items() if found["support"] and not found["predicted"]]
    if never and not said:
        said = [f"No {unit} is predicted as {listed(never)}, although some {plural} have that label."]
    # Weights would also count the words that have no entity.
    weight = "" if weighted or unit != "row" else ' or a weight (class_weight="balanced", --class-weight balanced)'
    hidden = {"row": "Accuracy hides this; f1_macro shows it. ", "word": "Accuracy hides this. ", "entity": ""}[unit]
    advice = (
        f"{hidden}Rare labels need more rows{weight}. If no label is rare, use more epochs, smaller batches or a "
        "higher learning rate."
    )
    return [f"{one} {advice}" for one in said]


def table_lines(details: Mapping[str, Any]) -> list[str]:
    """The table as lines of text, and of which label `f1` is; no lines for a task without labels."""
    if not details.get("labels"):
        return []
    lines = ["precision  recall      f1  support  label"]
    for label, found in details["labels"].items():
        numbers = "{precision:9.4f}  {recall:6.4f}  {f1:6.4f}  {support:7d}".format(**found)
        lines.append(f"{numbers}  {one_line(label)}")
    if "positive" in details:
        lines.append(f"The score f1 is that of the label {details['positive']!r}; --positive chooses another label.")
    return lines
