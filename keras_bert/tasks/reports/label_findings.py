"""Findings of tasks that choose: labels of a text, or one of several texts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from keras_bert.tasks.reports.findings import Explained, Findings, Shown, texts_of, weighted
from keras_bert.tasks.reports.parts import calibration, confusion, table

WORST = "Most confident mistakes"
MOST_LABELS = 1_000  # of a confusion matrix


def label_findings(
    columns: dict[str, list[str]], true: np.ndarray, scores: np.ndarray, labels: Sequence[str], *,
    matrix: bool = True, abstain_below: float = 0.0,
) -> Findings:  # fmt: skip
    """One label for each row, by the ids of the right labels [n] and the probabilities [n, C].

    matrix: whether the labels mean the same in all rows. abstain_below: a row has no label if its probability is lower.
    """
    answered = scores.argmax(1)
    right, confidence = answered == true, scores.max(1)
    unsure = confidence < abstain_below

    def show(row: int) -> Shown:
        label = labels[answered[row]]
        answer = f"no label (most likely: {label})" if unsure[row] else label
        return Shown(texts_of(columns, row), labels[true[row]], answer, float(confidence[row]))

    def explain(row: int) -> Explained:
        weights = np.zeros(scores.shape[1], "float32")
        weights[[answered[row], true[row]]] = 1, -1  # why this label, and not the right one
        return weighted(row, weights)

    parts = {"confusion": confusion(true, answered, labels)} if matrix and len(labels) <= MOST_LABELS else {}
    parts["calibration"] = calibration(right, confidence)
    if unsure.any():
        first = next(iter(parts.values()))
        first["note"] = (
            f"{unsure.sum():,} of {len(true):,} rows get no label: the most likely one has a probability below "
            f"{abstain_below:g}. Here they count with that label. {first['note']}"
        ).rstrip()
    return Findings(columns, show, "accuracy", right, WORST, np.where(right, 0, confidence), explain, parts)


def several_labels_findings(
    columns: dict[str, list[str]], true: np.ndarray, answered: np.ndarray, scores: np.ndarray, labels: Sequence[str]
) -> Findings:
    """Any number of labels for each row: 0 and 1 of the right and of the answered labels, and probabilities [n, C]."""
    true, answered = true > 0, answered > 0
    # How sure the task is of each of its decisions that are wrong.
    sure = np.where(true == answered, 0, np.where(answered, scores, 1 - scores))  # [n, C]

    def named(chosen: np.ndarray) -> str:
        return ", ".join(label for label, holds in zip(labels, chosen, strict=True) if holds) or "no label"

    def show(row: int) -> Shown:
        return Shown(texts_of(columns, row), named(true[row]), named(answered[row]), float(sure[row].max()))

    def explain(row: int) -> Explained:
        label = sure[row].argmax()
        weights = np.zeros(len(labels), "float32")
        weights[label] = 1 if answered[row, label] else -1
        return weighted(row, weights)

    cells = [true & answered, true & ~answered, ~true & answered, ~true & ~answered]
    counts = np.stack([cell.sum(0) for cell in cells], axis=1).tolist()  # [C, 4]
    header = ["label", "has it, found", "has it, not found", "lacks it, found", "lacks it, not found"]
    parts = {
        "confusion": table(
            "Confusion of each label", header, [[label, *row] for label, row in zip(labels, counts, strict=True)]
        ),
        "calibration": calibration(true.ravel(), scores.ravel(), "labels"),
    }
    right = (true == answered).all(1)
    return Findings(columns, show, "share of rows with every label right", right, WORST, sure.max(1), explain, parts)


def choice_findings(columns: dict[str, list[str]], choices: Any, true: np.ndarray, scores: np.ndarray) -> Findings:
    """One of several texts, which are other texts in each row; `choices` has their lists."""
    prompts, _ = columns.values()
    names = [f"choice {number}" for number in range(scores.shape[1])]
    found = label_findings(columns, true, scores, names, matrix=False)

    def show(row: int) -> Shown:
        texts = [
            ("prompt", prompts[row], ()),
            *((name, text, ()) for name, text in zip(names, choices[row], strict=True)),
        ]
        return replace(found.show(row), texts=texts)

    return replace(found, show=show)
