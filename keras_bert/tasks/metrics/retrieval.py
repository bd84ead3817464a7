"""How well vectors find the texts that belong together."""

import logging
from typing import Any

import numpy as np

from keras_bert.nearest import unit
from keras_bert.tasks.rows.sentence_rows import numbered

logger = logging.getLogger("keras_bert")

RECALL_AT = (1, 5, 10)
CHUNK = 1024  # queries at a time


def retrieval_scores(columns: list[list[str]], vectors: np.ndarray) -> dict[str, float]:
    """How well each query finds its positives among the texts of all other columns, as means over the queries.

    recall@k is the share of a query's positives that are among the k nearest texts, and mrr is 1 / the rank of the
    first positive.
    Equal texts are one query or one document. A document that is as near as a positive counts as nearer.

    Args:
        columns: queries, positives, and perhaps negatives.
        vectors: of the texts of each row, [n, C, H].

    >>> retrieval_scores([["a", "b"], ["c", "d"]], np.eye(2)[[[0, 0], [1, 1]]])["mrr"]
    1.0
    """
    query, ranks, _ = _ranked(columns, vectors)
    positives = np.bincount(query)
    first = np.zeros(len(positives))
    np.maximum.at(first, query, 1 / ranks)
    recall = {f"recall@{most}": float(np.mean(np.bincount(query, ranks <= most) / positives)) for most in RECALL_AT}
    return {**recall, "mrr": float(first.mean())}


def positive_ranks(columns: list[list[str]], vectors: np.ndarray) -> np.ndarray:
    """The rank of the positive of each row among all documents, from 1, [n]."""
    _, ranks, pair = _ranked(columns, vectors)
    return ranks[pair]


def _ranked(columns: list[list[str]], vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The query and the rank of each different pair [P], and the pair of each row [n]."""
    query = numbered(columns[0])
    document = numbered(text for texts in columns[1:] for text in texts)
    queries = unit(vectors[_firsts(query), 0])  # [Q, H]
    documents = unit(np.concatenate(np.moveaxis(vectors[:, 1:], 1, 0))[_firsts(document)])  # [D, H]
    if len(documents) == 1:
        logger.warning(
            "The rows to evaluate have only one text to find, so recall and mrr are 1 with any model. Use rows with "
            "different positives."
        )
    of_rows = np.stack([query, document[: len(query)]], axis=1)  # [n, 2]
    pairs, pair = np.unique(of_rows, axis=0, return_inverse=True)  # [P, 2]
    ranks = np.zeros(len(pairs), int)
    for start in range(0, len(pairs), CHUNK):
        part = pairs[start : start + CHUNK]
        cosines = queries[part[:, 0]] @ documents.T  # [P, D]
        own = cosines[np.arange(len(part)), part[:, 1]]
        ranks[start : start + CHUNK] = (cosines >= own[:, None]).sum(axis=1)
    return pairs[:, 0], ranks, pair.reshape(-1)


def neighbour_scores(labels: np.ndarray, vectors: np.ndarray) -> dict[str, float]:
    """The share of texts whose nearest other text has the same label.

    >>> neighbour_scores(np.array([0, 0, 1]), np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]))["neighbour_accuracy"]
    0.6666666666666666
    """
    right = labels[nearest_others(vectors)[0]] == labels
    return {"neighbour_accuracy": float(right.mean()) if len(vectors) > 1 else 0.0}


def nearest_others(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of the vector nearest to each, which is not itself, and its cosine, both [n]."""
    vectors = unit(vectors)
    nearest: list[Any] = []
    for start in range(0, len(vectors), CHUNK):
        cosines = vectors[start : start + CHUNK] @ vectors.T  # [R, n]
        number = np.arange(len(cosines))
        cosines[number, start + number] = -np.inf
        best = cosines.argmax(axis=1)
        nearest.append((best, cosines[number, best]))
    best, cosines = (np.concatenate(parts) for parts in zip(*nearest, strict=True))
    return best, cosines


def _firsts(numbers: np.ndarray) -> np.ndarray:
    """The place of the first occurrence of each number."""
    return np.unique(numbers, return_index=True)[1]
