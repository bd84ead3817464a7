"""How well vectors find the texts that belong together."""

from typing import Any

import numpy as np

from keras_bert.nearest import unit
from keras_bert.tasks.sentence_rows import numbered

RECALL_AT = (1, 5, 10)
CHUNK = 1024  # queries at a time


def retrieval_scores(columns: list[list[str]], vectors: np.ndarray) -> dict[str, float]:
    """Recall of the positives of each query among the texts of all other columns, and the mean reciprocal rank.

    Equal texts are one query or one document. A document that is as near as a positive counts as nearer.

    Args:
        columns: queries, positives, and perhaps negatives.
        vectors: of the texts of each row, [n, C, H].

    >>> retrieval_scores([["a", "b"], ["c", "d"]], np.eye(2)[[[0, 0], [1, 1]]])["mrr"]
    1.0
    """
    query = numbered(columns[0])
    document = numbered(text for texts in columns[1:] for text in texts)
    queries = unit(vectors[_firsts(query), 0])  # [Q, H]
    documents = unit(np.concatenate(np.moveaxis(vectors[:, 1:], 1, 0))[_firsts(document)])  # [D, H]
    pairs = np.unique(np.stack([query, document[: len(query)]], axis=1), axis=0)  # [P, 2]
    ranks = np.zeros(len(pairs), int)
    for start in range(0, len(pairs), CHUNK):
        part = pairs[start : start + CHUNK]
        cosines = queries[part[:, 0]] @ documents.T  # [P, D]
        own = cosines[np.arange(len(part)), part[:, 1]]
        ranks[start : start + CHUNK] = (cosines >= own[:, None]).sum(axis=1)
    first = np.zeros(len(queries))
    np.maximum.at(first, pairs[:, 0], 1 / ranks)
    positives = np.bincount(pairs[:, 0])
    recall = {
        f"recall@{most}": float(np.mean(np.bincount(pairs[:, 0], ranks <= most) / positives)) for most in RECALL_AT
    }
    return {**recall, "mrr": float(first.mean())}


def neighbour_scores(labels: np.ndarray, vectors: np.ndarray) -> dict[str, float]:
    """The share of texts whose nearest other text has the same label.

    >>> neighbour_scores(np.array([0, 0, 1]), np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]))["neighbour_accuracy"]
    0.6666666666666666
    """
    vectors = unit(vectors)
    right: list[Any] = []
    for start in range(0, len(vectors), CHUNK):
        cosines = vectors[start : start + CHUNK] @ vectors.T  # [R, n]
        number = np.arange(len(cosines))
        cosines[number, start + number] = -np.inf  # a text is not its own neighbour
        right.append(labels[cosines.argmax(axis=1)] == labels[start : start + CHUNK])
    return {"neighbour_accuracy": float(np.concatenate(right).mean()) if len(vectors) > 1 else 0.0}


def _firsts(numbers: np.ndarray) -> np.ndarray:
    """The place of the first occurrence of each number."""
    return np.unique(numbers, return_index=True)[1]
