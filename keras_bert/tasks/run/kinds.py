"""The five kinds of task as a run of the command line sees them."""

import dataclasses
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from keras_bert.bert import Bert
from keras_bert.tasks.decoding.entities import has_entities
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.tasks.readers import Rows
from keras_bert.tasks.task import Task
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.tasks.token_tagger import TokenTagger
from keras_bert.wording import listed

if TYPE_CHECKING:
    from keras_bert.tasks.run.finetune import Settings


@dataclasses.dataclass(frozen=True)
class Kind:
    """How a kind of task is built from its training rows, chosen by a score, and asked."""

    task: type[Task]
    build: Callable[[Bert, Rows, "Settings"], Task]
    best: Callable[[Task], str]  # the name of the score by which an epoch is the best
    ask: Callable[[Task, Any, int], Iterable[Any]]  # of the columns x and a batch size: a dataclass or a dict for each
    seq_length: int = 128
    labels: Callable[[Rows], Iterable[tuple[int, str]]] = lambda rows: ()  # each label that occurs, with its row


def check_labels(kind: Kind, rows: Rows, known: Collection[str]) -> None:
    """An error that names file and row if a label is none of those that were, or are to be, learned."""
    for row, label in kind.labels(rows):
        if label not in known:
            raise ValueError(
                f"A label must be one of those in the training file: {listed(list(map(repr, sorted(known))), 8)}. "
                f"Mend it, or train on examples of it too. Received: {label!r} at {rows.place(row)}"
            )


def _names(rows: Rows) -> Iterable[tuple[int, str]]:
    """Labels of texts, one or several, and tags of words."""
    for row, value in enumerate(rows.y):
        for label in [value] if isinstance(value, str) else value:
            yield row, label


def _tags(rows: Rows) -> Iterable[tuple[int, str]]:
    """Tags of words; entities of texts as the tags that tell them."""
    for row, label in _names(rows):
        if isinstance(label, str):
            yield row, label
        else:
            yield from ((row, f"{letter}-{label[2]}") for letter in "BI")


def _sorted(labels: Iterable[tuple[int, str]]) -> list[str]:
    """Names in the order of the alphabet; numbers, where all are, in theirs."""
    names = sorted({label for _, label in labels})
    return sorted(names, key=int) if all(name.isdecimal() for name in names) else names


def _classifier(bert: Bert, train: Rows, settings: "Settings") -> Task:
    return TextClassifier(bert, _sorted(_names(train)), multi_label=isinstance(train.y[0], list))


def _regressor(bert: Bert, train: Rows, settings: "Settings") -> Task:
    return TextRegressor(bert, pairs="cosine" if settings.cosine else "together")


def _tagger(bert: Bert, train: Rows, settings: "Settings") -> Task:
    labels = _sorted(_tags(train))
    if any(label[1:2] == "-" for label in labels):
        labels = ["O", *(label for label in labels if label != "O")]
    # A Korean particle stands in one word with the name before it, but is no part of it.
    return TokenTagger(bert, labels, unit="piece" if isinstance(train.x[0], str) else "word")


def _answerer(bert: Bert, train: Rows, settings: "Settings") -> Task:
    some_without = any(not answers["text"] for answers in train.y)
    return QuestionAnswerer(bert, null_threshold=0.0 if some_without else None)


def _chooser(bert: Bert, train: Rows, settings: "Settings") -> Task:
    return MultipleChoice(bert, choices=len(settings.reading.choices))


KINDS = {
    "classify": Kind(
        TextClassifier,
        _classifier,
        lambda task: "f1_micro" if task.multi_label else "accuracy",
        lambda task, x, batch_size: task.classify(x, batch_size=batch_size),
        labels=_names,
    ),
    "regress": Kind(
        TextRegressor,
        _regressor,
        lambda task: "spearman",
        lambda task, x, batch_size: [{"score": float(score)} for score in task.score(x, batch_size=batch_size)],
    ),
    "tag": Kind(
        TokenTagger,
        _tagger,
        lambda task: "entity_f1" if has_entities(task.labels) else "accuracy",
        lambda task, x, batch_size: [
            {"entities": [dataclasses.asdict(entity) for entity in found]}
            for found in task.tag(x, batch_size=batch_size)
        ],
        labels=_tags,
    ),
    "answer": Kind(
        QuestionAnswerer,
        _answerer,
        lambda task: "f1",
        lambda task, x, batch_size: task.answer(*x, batch_size=batch_size),
        seq_length=384,
    ),
    "choose": Kind(
        MultipleChoice,
        _chooser,
        lambda task: "accuracy",
        lambda task, x, batch_size: task.choose(x[0], x[1], batch_size),
    ),
}


def kind_of(task: Any) -> str:
    """The name of a task's kind."""
    for name, kind in KINDS.items():
        if isinstance(task, kind.task):
            return name
    raise TypeError(f"A model must be one of the five tasks. Received: {type(task).__name__}")
