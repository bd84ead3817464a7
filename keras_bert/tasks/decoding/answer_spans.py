"""Where the answers to learn are: characters of a context, and tokens of its windows."""

from typing import Any

import numpy as np


def find_answer(context: str, given: Any, row: int) -> tuple[int, int] | None:
    """The characters of an answer, (0, 0) of none; None if the context does not hold it.

    Where it does not stand at the place that is told, the occurrence nearest to it is taken.

    >>> find_answer("Anna ran.", {"text": ["ran"], "answer_start": [6]}, row=0)
    (5, 8)
    """
    text, start = text_and_start(given, row)
    near = (start or 0) + len(text) - len(text.lstrip())
    text = text.strip()  # no token begins or ends with a space
    if not text:
        return 0, 0
    places = []
    place = context.find(text)
    while place >= 0:
        places.append(place)
        place = context.find(text, place + 1)
    if not places:
        return None
    start = min(places, key=lambda place: abs(place - near))
    return start, start + len(text)


def text_and_start(given: Any, row: int) -> tuple[str, int | None]:
    """Of an answer in any of its forms the text, "" where there is none, and its place if it has one."""
    if given is None or isinstance(given, str):
        return given or "", None
    if isinstance(given, dict):
        text, start = given.get("text", ""), given.get("answer_start")
        if not isinstance(text, str):  # several answers, the first of which is learned
            text, start = (text[0], None if start is None else start[0]) if len(text) else ("", None)
    elif isinstance(given, tuple) and len(given) == 2:
        text, start = given
    else:
        text = start = given
    if not isinstance(text, str) or isinstance(start, bool | float | str):
        raise TypeError(
            'An answer must be a text, (text, start), {"text": ..., "answer_start": ...} or None. '
            f"Received: {given!r} at row {row}"
        )
    return text, None if start is None else int(start)


def token_spans(start: np.ndarray, end: np.ndarray, span: tuple[int, int]) -> np.ndarray:
    """The first and last token of an answer in each of its question's windows [W, 2].

    (0, 0), [CLS], where a window does not hold all of its pieces. Characters that leave none (accents that are
    stripped, a zero-width space) need not be held.

    start, end: characters of each token of all the windows [W, S], -1 where it is none of the context.
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
