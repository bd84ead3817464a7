"""Where the answers to learn are: characters of a context, and tokens of its windows."""

import logging
from typing import Any

import numpy as np

from keras_bert.tasks.columns.text_columns import check_lengths, is_missing, rows_of

logger = logging.getLogger("keras_bert")


def answer_spans(contexts: list[str], y: Any) -> list[tuple[int, int] | None]:
    """The characters of each answer, (0, 0) if there is none, and None if it is not in its context."""
    given = rows_of(y, "answer")
    check_lengths(questions=contexts, answers=given)
    spans = [find_answer(context, one, row) for row, (context, one) in enumerate(zip(contexts, given, strict=True))]
    lost = [row for row, span in enumerate(spans) if span is None]
    if lost and len(lost) == len(spans):
        raise ValueError(
            "None of the answers is in its context. Correct the answers; they must be in the context word for word. "
            f"Received: {given[0]!r} as the first answer"
        )
    found = [row for row, span in enumerate(spans) if span not in (None, (0, 0))]
    odd = [row for row in found if not _is_at_start(contexts[row], given[row], row)]
    if odd:
        logger.warning(
            "%d of %d answers do not begin at the given start, which counts characters and not bytes. The nearest "
            "place counts. The first is %r at row %d.",
            len(odd), len(spans), text_and_start(given[odd[0]], odd[0])[0], odd[0],
        )  # fmt: skip
    if lost:
        named = ", ".join(f"{text_and_start(given[row], row)[0]!r} at row {row}" for row in lost[:5])
        logger.warning(
            "Answers that are not in their contexts do not count in the loss: %d of %d, such as %s",
            len(lost), len(spans), named,
        )  # fmt: skip
    return spans


def _is_at_start(context: str, given: Any, row: int) -> bool:
    text, start = text_and_start(given, row)
    return start is None or context.startswith(text, start)


def find_answer(context: str, given: Any, row: int) -> tuple[int, int] | None:
    """The characters of an answer in its context, (0, 0) for no answer; None if the context does not have it.

    If the answer has a start, the occurrence that is nearest to it counts, otherwise the first.

    >>> find_answer("Anna ran.", {"text": ["ran"], "answer_start": [6]}, row=0)
    (5, 8)
    """
    text, start = text_and_start(given, row)
    near = (start or 0) + len(text) - len(text.lstrip())
    text = text.strip()  # no token begins or ends with a space
    if not text:
        return 0, 0
    if text not in context:
        return None
    start = nearest_place(context, text, near)
    return start, start + len(text)


def nearest_place(context: str, text: str, near: int) -> int:
    """Where a text begins in a context that has it; of several places, the one that is nearest to `near`."""
    places = [context.find(text)]
    while (place := context.find(text, places[-1] + 1)) >= 0:
        places.append(place)
    return min(places, key=lambda place: abs(place - near))


def text_and_start(given: Any, row: int) -> tuple[str, int | None]:
    """The text of an answer in any of its forms, "" for no answer, and its start if it has one."""
    if isinstance(given, str) or is_missing(given):
        return given if isinstance(given, str) else "", None
    if isinstance(given, dict):
        text, start = given.get("text"), given.get("answer_start")
        several = isinstance(text, list | tuple | np.ndarray)
        if text is None or (several and not len(text)):
            text, start = "", None
        elif several and (start is None or np.size(start)):  # the first one is learned
            text, start = text[0], None if start is None else np.ravel(start)[0]
    elif isinstance(given, tuple) and len(given) == 2:
        text, start = given
    else:
        text = start = given
    if not isinstance(text, str) or isinstance(start, bool) or not isinstance(start, int | np.integer | None):
        raise TypeError(
            f"The answer at row {row} has an unknown form. Give a text, (text, start), "
            f'{{"text": ..., "answer_start": ...}} or None. Received: {given!r} at row {row}'
        )
    return text, None if start is None else int(start)


def token_spans(start: np.ndarray, end: np.ndarray, span: tuple[int, int]) -> np.ndarray:
    """The first and last token of an answer in each window of its question [W, 2].

    (0, 0), which is [CLS], where a window does not have all pieces of the answer. Characters without a piece, such as
    stripped accents and zero-width spaces, do not count.

    start, end: the characters of each token of these windows [W, S], -1 for tokens outside of the context.
    """
    inside = (start >= 0) & (start < span[1]) & (end > span[0])  # [W, S]
    found = np.zeros((len(start), 2), "int32")
    if inside.any():
        first, last = start[inside].min(), end[inside].max()
        for window in np.flatnonzero(inside.any(1)):
            tokens = np.flatnonzero(inside[window])
            if start[window, tokens[0]] == first and end[window, tokens[-1]] == last:
                found[window] = tokens[0], tokens[-1]
    return found


def true_texts(answer: Any) -> list[str]:
    """The texts of an answer in any of the forms that `fit` takes."""
    if isinstance(answer, dict):
        answer = answer.get("text")
    elif isinstance(answer, tuple):
        answer = answer[0]
    if is_missing(answer):
        return [""]
    return [answer] if isinstance(answer, str) else list(answer)
