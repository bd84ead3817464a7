"""Tags against tags: entities by seqeval's rules, and plain accuracy."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.tasks.columns.text_columns import check_scored
from keras_bert.tasks.decoding.entities import has_entities, span_of
from keras_bert.tasks.metrics.by_label import scores_of_counts

Tags = Sequence[Sequence[str]]  # of each sentence, a tag per word
BILOU = {"L-": "E-", "U-": "S-"}  # seqeval detects only the letters of BIOES
Span = tuple[int, int, str]  # start and end in characters, type


def tag_scores(true: Tags, predicted: Tags, *, labels: Iterable[str] = ()) -> dict[str, float]:
    """Accuracy over words; for tags such as B-PER also precision, recall and F1 over entities, as in CoNLL.

    labels: of the task, since all words of a small file may be O.

    >>> tag_scores([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])["entity_f1"]
    0.0
    """
    from seqeval.metrics import accuracy_score

    check_scored(true, predicted)
    uneven = [row for row, (a, b) in enumerate(zip(true, predicted, strict=True)) if len(a) != len(b)]
    if uneven:
        raise ValueError(
            "The true and the predicted tags of a sentence differ in number. Pass a tag for each word. Received: "
            f"different numbers in sentence {uneven[0]}"
        )
    true, predicted = [list(tags) for tags in true], [list(tags) for tags in predicted]
    scores = {"accuracy": float(accuracy_score(true, predicted))}
    if has_entities({*labels, *itertools.chain(*true)}):
        scores |= _entity_scores(true, predicted)
    return scores


def span_scores(true: Sequence[Iterable[Any]], predicted: Sequence[Iterable[Any]]) -> dict[str, float]:
    """Precision, recall and F1 over entities of texts. An entity is right if its start, end and type are.

    >>> span_scores([[(0, 4, "LOC")]], [[(0, 4, "LOC"), (9, 11, "PER")]])["entity_precision"]
    0.5
    """
    return _entity_scores(*tags_of_spans(true, predicted))


def tags_of_spans(true: Sequence[Iterable[Any]], predicted: Sequence[Iterable[Any]]) -> tuple[Tags, Tags]:
    """Tags of characters for the true and the predicted entities of each text.

    >>> tags_of_spans([[(0, 2, "LOC")]], [[]])
    ([['B-LOC', 'I-LOC']], [['O', 'O']])
    """
    rows = [(list(map(span_of, a)), list(map(span_of, b))) for a, b in zip(true, predicted, strict=True)]
    lengths = [max((end for _, end, _ in (*a, *b)), default=1) for a, b in rows]
    return (
        [_tags(a, length) for (a, _), length in zip(rows, lengths, strict=True)],
        [_tags(b, length) for (_, b), length in zip(rows, lengths, strict=True)],
    )


def scores_by_tag(true: Tags, predicted: Tags, *, labels: Iterable[str] = ()) -> dict[str, Any]:
    """The scores of each type of entity, or else of each tag, and what is counted, as `Task.details` has them.

    >>> scores_by_tag([["B-PER", "O"]], [["B-PER", "B-LOC"]])["labels"]["LOC"]
    {'precision': 0.0, 'recall': 0.0, 'f1': 0.0, 'support': 0, 'predicted': 1}
    """
    from seqeval.metrics.sequence_labeling import get_entities

    are_entities = has_entities({*labels, *itertools.chain(*true)})
    a, b = (  # (type, start, end) of entities, (tag, place) of words
        set(get_entities(_as_bioes(side)) if are_entities else zip(itertools.chain(*side), itertools.count()))
        for side in (true, predicted)
    )
    hits, wanted, found = (Counter(kind for kind, *_ in side) for side in (a & b, a, b))
    by_label = {kind: scores_of_counts(hits[kind], wanted[kind], found[kind]) for kind in sorted({*wanted, *found})}
    return {"labels": by_label, "labels_of": "entities" if are_entities else "words"}


def _tags(spans: Sequence[Span], length: int) -> list[str]:
    tags = ["O"] * length
    for start, end, kind in spans:
        tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return tags


def _entity_scores(true: Tags, predicted: Tags) -> dict[str, float]:
    from seqeval.metrics import f1_score, precision_score, recall_score

    true, predicted = _as_bioes(true), _as_bioes(predicted)
    scores = {"entity_precision": precision_score, "entity_recall": recall_score, "entity_f1": f1_score}
    return {name: float(score(true, predicted, zero_division=0)) for name, score in scores.items()}


def _as_bioes(rows: Tags) -> list[list[str]]:
    return [[BILOU.get(tag[:2], tag[:2]) + tag[2:] for tag in tags] for tags in rows]


@keras.saving.register_keras_serializable("keras_bert")
class TokenAccuracy(keras.metrics.SparseCategoricalAccuracy):
    """Accuracy over all tokens that have a weight.

    Keras's own averages over the positions of a row first, so that words in wide batches would count less.

    >>> metric = TokenAccuracy()
    >>> metric.update_state([[0]], [[[2.0, 1.0]]], [[1.0]])
    >>> metric.update_state([[1, 0, 0]], [[[2.0, 1.0], [2.0, 1.0], [2.0, 1.0]]], [[1.0, 0.0, 0.0]])
    >>> float(metric.result())
    0.5
    """

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Count ids [B, S] against logits [B, S, C]."""
        y_pred = ops.reshape(y_pred, (-1, ops.shape(y_pred)[-1]))  # [B * S, C]
        weight = None if sample_weight is None else ops.reshape(sample_weight, (-1,))  # [B * S]
        return super().update_state(ops.reshape(y_true, (-1,)), y_pred, weight)
