"""The scores of a task on examples: what `keras-bert evaluate` tells, and `fit` of its validation data."""

from typing import Any

import keras
import numpy as np

from keras_bert.tasks.columns import is_missing, rows_of
from keras_bert.tasks.labels import label_ids
from keras_bert.tasks.metrics.answers import answer_scores, korquad_scores
from keras_bert.tasks.metrics.classification import label_scores, multi_label_scores, number_scores
from keras_bert.tasks.metrics.tagging import span_scores, tag_scores
from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.question_answerer import QuestionAnswerer
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.tasks.token_tagger import TokenTagger


def scores(task: Any, x: Any, y: Any, *, batch_size: int = 32, characters: bool = False) -> dict[str, float]:
    """What is reported of a task, by name; `x` and `y` are columns as `fit` takes them.

    characters: score answers by characters, as KorQuAD does, and not by words, as SQuAD does.
    """
    if isinstance(task, TextClassifier):
        return _classifier(task, x, y, batch_size)
    if isinstance(task, TextRegressor):
        return number_scores(task.target_ids(y), task.score(x, batch_size=batch_size))
    if isinstance(task, TokenTagger):
        return _tagger(task, x, y, batch_size)
    if isinstance(task, QuestionAnswerer):
        found = [answer.text for answer in task.answer(*x, batch_size=batch_size)]
        true = [_texts(answers) for answers in rows_of(y, "answer")]
        return (korquad_scores if characters else answer_scores)(true, found)
    if isinstance(task, MultipleChoice):
        found = [choice.index for choice in task.choose(x[0], x[1], batch_size)]
        return {"accuracy": float(np.mean(task.target_ids(y) == np.array(found)))}
    raise TypeError(f"scores takes one of the five tasks. Received: {type(task).__name__}")


class Scores(keras.callbacks.Callback):
    """Adds `scores` of held-out examples to the logs of each epoch, as val_matthews, val_entity_f1 and so on.

    `fit` adds it by itself where the recipe compiled the task. Of a name that the logs have, their value stays.
    with_validation: only after epochs that `fit` validates.

    >>> task.fit(texts, labels, callbacks=[Scores(held_out_texts, held_out_labels)])    # doctest: +SKIP
    """

    def __init__(self, x: Any, y: Any, *, with_validation: bool = False, **options: Any) -> None:
        super().__init__()
        self.x = x
        self.y = y
        self.with_validation = with_validation
        self.options = options

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        if self.with_validation and "val_loss" not in logs:
            return
        for name, value in self.found().items():
            logs.setdefault(f"val_{name}", value)

    def found(self) -> dict[str, float]:
        """The scores of the model as it is now."""
        return scores(self.model, self.x, self.y, **self.options)


def _classifier(task: TextClassifier, x: Any, y: Any, batch_size: int) -> dict[str, float]:
    true = task.target_ids(y)
    found = task.classify(x, batch_size=batch_size)
    if task.multi_label:
        return multi_label_scores(true, task.target_ids([answer.above(0.5) for answer in found]))
    return label_scores([task.labels[number] for number in true], [answer.label for answer in found], task.labels)


def _tagger(task: TokenTagger, x: Any, y: Any, batch_size: int) -> dict[str, float]:
    y = rows_of(y, "list of labels")
    if not isinstance(rows_of(x, "text")[0], str | bytes):
        true = [[task.labels[number] for number in label_ids(tags, task.labels)] for tags in y]
        return tag_scores(true, task.tag_words(x, batch_size=batch_size), labels=task.labels)
    found = [[(one.start, one.end, one.type) for one in entities] for entities in task.tag(x, batch_size=batch_size)]
    return span_scores([[_span(entity) for entity in entities] for entities in y], found)


def _span(entity: Any) -> tuple[int, int, str]:
    return (entity.start, entity.end, entity.type) if hasattr(entity, "type") else tuple(entity)


def _texts(answer: Any) -> list[str]:
    """The texts of an answer in any of the forms that `fit` takes."""
    if isinstance(answer, dict):
        answer = answer["text"]
    elif isinstance(answer, tuple):
        answer = answer[0]
    if is_missing(answer):
        return [""]
    return [answer] if isinstance(answer, str) else list(answer)
