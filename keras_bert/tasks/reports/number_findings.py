"""Findings of tasks whose answers are numbers: scores of texts, and vectors that are compared."""

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_bert.nearest import cosines_of_pairs, unit
from keras_bert.tasks.columns.text_columns import flat, rows_of
from keras_bert.tasks.metrics.retrieval import nearest_others, positive_ranks
from keras_bert.tasks.reports.findings import Explained, Findings, Shown, texts_of, weighted
from keras_bert.tasks.reports.parts import points
from keras_bert.tasks.rows.sentence_rows import numbered


def number_findings(columns: dict[str, list[str]], true: np.ndarray, answered: np.ndarray) -> Findings:
    """A number for each row, both [n]: the largest errors first."""
    errors = answered - true

    def show(row: int) -> Shown:
        return Shown(texts_of(columns, row), f"{true[row]:.4g}", f"{answered[row]:.4g}")

    def explain(row: int) -> Explained:
        return weighted(row, np.sign(errors[row]))

    chart = points("Answers", ("right number", "answer"), true, answered)
    return Findings(
        columns, show, "mean absolute error", abs(errors), "Largest errors", abs(errors), explain, {"points": chart}
    )


def cosine_findings(columns: dict[str, list[str]], scores: np.ndarray, vectors: np.ndarray) -> Findings:
    """Pairs with scores [n], and their vectors [n, 2, H]: first those whose places among all pairs differ most."""
    cosines = cosines_of_pairs(vectors)  # [n]
    gaps = abs(_places(scores) - _places(cosines))

    def show(row: int) -> Shown:
        return Shown(texts_of(columns, row), f"score {scores[row]:.4g}", f"cosine {cosines[row]:.4f}")

    chart = points("Scores and cosines", ("score", "cosine"), scores, cosines)
    return Findings(
        columns, show, "mean difference of places", gaps, "Worst pairs", gaps, explained_cosine(2), {"points": chart}
    )


def explained_cosine(count: int) -> Callable[[int], Explained]:
    """How the cosine of the first two of the `count` texts of a row is explained."""

    def value(vectors: Any) -> Any:
        rows = ops.normalize(ops.reshape(vectors, (-1, count, vectors.shape[-1])), axis=-1, epsilon=1e-12)  # [K, C, H]
        return ops.sum(rows[:, 0] * rows[:, 1])

    return lambda row: Explained(row, value, "a high cosine")


def _places(values: np.ndarray) -> np.ndarray:
    """The place of each value among all, from 0 to 1; equal values have the same."""
    from scipy.stats import rankdata

    return (rankdata(values) - 1) / max(len(values) - 1, 1)


def pair_findings(columns: dict[str, list[str]], vectors: np.ndarray) -> Findings:
    """Queries and positives, and their vectors [n, C, H]: first the positives that are found last."""
    ranks = positive_ranks([*columns.values()], vectors)

    def show(row: int) -> Shown:
        return Shown(texts_of(columns, row), "the positive is the nearest text", f"it is number {ranks[row]:,}")

    explain = explained_cosine(vectors.shape[1])
    return Findings(columns, show, "mean reciprocal rank", 1 / ranks, "Worst pairs", 1 - 1 / ranks, explain)


def neighbour_findings(columns: dict[str, list[str]], labels: list[Any], vectors: np.ndarray) -> Findings:
    """Texts with labels, both [n], and their vectors [n, H]: first those very near to a text with another label."""
    (texts,) = columns.values()
    neighbour, cosines = nearest_others(vectors)
    numbers = numbered(labels)
    right = numbers[neighbour] == numbers

    def show(row: int) -> Shown:
        other = neighbour[row]
        both = [("text", texts[row], ()), ("nearest text", texts[other], ())]
        return Shown(both, str(labels[row]), f"{labels[other]}, cosine {cosines[row]:.4f}")

    def explain(row: int) -> Explained:
        nearest = ops.convert_to_tensor(unit(vectors[neighbour[row]]), "float32")  # [H]

        def value(copies: Any) -> Any:
            return ops.sum(ops.normalize(copies, axis=-1, epsilon=1e-12) * nearest)

        return Explained(row, value, "a high cosine with the nearest text")

    badness = np.where(right, 0, 1 + cosines)
    worst = "Nearest texts with another label"
    return Findings(columns, show, "share of neighbours with the same label", right, worst, badness, explain)


def sentence_findings(columns: dict[str, list[str]], y: Any, vectors: np.ndarray) -> Findings:
    """The findings of a SentenceEmbedder, by the form of its rows."""
    if vectors.ndim == 2:
        return neighbour_findings(columns, rows_of(flat(y), "label"), vectors)
    if y is None or not len(y):
        return pair_findings(columns, vectors)
    return cosine_findings(columns, np.asarray(flat(y), "float64"), vectors)
