"""Scores of labels and of numbers, as GLUE and KLUE report them."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.tasks.columns.text_columns import check_scored
from keras_bert.text_encoding import composed
from keras_bert.wording import listed

logger = logging.getLogger("keras_bert")


def label_scores(
    true: Sequence[Any], predicted: Sequence[Any], labels: Sequence[Any], positive: Any = None
) -> dict[str, float]:
    """Accuracy, the mean of the F1 of all labels, Matthews correlation, and the F1 of one label.

    positive: the label that `f1` is of. By default the second of two; with more labels there is no `f1` then.

    >>> scores = label_scores(["no", "yes", "yes"], ["no", "yes", "no"], labels=["no", "yes"])
    >>> round(scores["accuracy"], 3), round(scores["f1"], 3), round(scores["matthews"], 3)
    (0.667, 0.667, 0.5)
    """
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    check_scored(true, predicted)
    names = [str(label) for label in labels]
    true, predicted = [str(label) for label in true], [str(label) for label in predicted]
    f1 = {}
    if (one := positive_label(names, positive)) is not None:
        f1["f1"] = f1_score([label == one for label in true], [label == one for label in predicted], zero_division=0)
    f1["f1_macro"] = f1_score(true, predicted, labels=names, average="macro", zero_division=0)
    one_label = len({*true, *predicted}) == 1  # sklearn would warn, and give 0 too
    matthews = 0.0 if one_label else matthews_corrcoef(true, predicted)
    scores = {"accuracy": accuracy_score(true, predicted), **f1, "matthews": matthews}
    return {name: float(score) for name, score in scores.items()}


def label_score_names(positive: str | None, *, several: bool, abstains: bool) -> tuple[str, ...]:
    """The names of a classifier's scores. positive: the label that `f1` is of."""
    if several:
        return ("f1_micro", "f1_macro", "accuracy")
    f1 = () if positive is None else ("f1",)
    answered = ("answered", "accuracy_answered") if abstains else ()
    return ("accuracy", *f1, "f1_macro", "matthews", *answered)


def positive_label(labels: Sequence[str], positive: Any = None, *, several: bool = False) -> str | None:
    """The label that `f1` is of, if there is one. several: whether a text can have several labels."""
    if several and positive is not None:
        raise ValueError(
            "`positive` (--positive) was given, but a text can have several labels. Leave it out: the F1 of each label "
            f"is reported. Received: positive={positive!r}"
        )
    if positive is None:
        return labels[1] if len(labels) == 2 else None
    name = composed(str(positive))  # as all labels are
    if name not in labels:
        raise ValueError(
            f"`positive` (--positive) is {str(positive)!r}, which is not a label of the task. Name one of "
            f"{listed(list(map(repr, labels)), 8)}. Received: positive={positive!r}"
        )
    return name


def multi_label_scores(true: Any, predicted: Any) -> dict[str, float]:
    """F1 over all labels, its mean over labels, and the share of texts with every label right, from 0 and 1 [n, C]."""
    from sklearn.metrics import accuracy_score, f1_score

    check_scored(true, predicted)
    true, predicted = np.asarray(true), np.asarray(predicted)
    of_each = [f1_score(*column, zero_division=0) for column in zip(true.T, predicted.T, strict=True)]
    return {
        "f1_micro": float(f1_score(true.ravel(), predicted.ravel(), zero_division=0)),
        "f1_macro": float(np.mean(of_each)),
        "accuracy": float(accuracy_score(true, predicted)),
    }


def number_scores(true: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """Pearson's and Spearman's correlation; 0 if all numbers of one side are equal, where neither is defined.

    >>> number_scores([1, 2, 3], [1, 2, 9])["spearman"]
    1.0
    """
    from scipy.stats import pearsonr, spearmanr

    check_scored(true, predicted)
    if len(set(true)) == 1:
        logger.warning(
            "All rows to evaluate have the score %g, so the correlations are undefined, and are shown as 0. Use rows "
            "with different scores.", true[0]
        )  # fmt: skip
    if len(set(true)) < 2 or len(set(predicted)) < 2:
        return {"pearson": 0.0, "spearman": 0.0}
    return {
        "pearson": float(pearsonr(true, predicted).statistic),
        "spearman": float(spearmanr(true, predicted).statistic),
    }
