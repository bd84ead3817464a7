"""Questions and contexts from the JSON of SQuAD v1.1 and v2.0, and of KorQuAD v1, which has the same form."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from keras_bert.tasks.decoding.answer_spans import nearest_place
from keras_bert.tasks.readers.reading import Reading
from keras_bert.tasks.readers.rows import Rows
from keras_bert.text_encoding import composed, is_blank

_FORMS = (
    "Answers and contexts look the same, but one has Unicode's form NFC and the other NFD, in which Hangul syllables "
    'are split into letters. Bring the file into one form with unicodedata.normalize("NFC", text), and count the '
    "answer_start again."
)

logger = logging.getLogger("keras_bert")


def read_squad(path: str | os.PathLike, *, answers: bool = True) -> Rows:
    """Questions and contexts, for a `QuestionAnswerer`; y holds {"text": [...], "answer_start": [...]}.

    The lists are empty for a question that v2.0 marks as impossible. With answers=False only the questions are read. An
    answer that is not in its context at the place that the file gives is kept, because scoring needs only its text. Its
    start is then the nearest place that has it. The log counts such answers and names the first.
    """
    questions: list[str] = []
    contexts: list[str] = []
    y: list[dict[str, list[Any]]] = []
    ids: list[str] = []
    for context, entry in _entries(path):
        ids.append(str(entry.get("id", len(ids))))
        place = f"{path}:{ids[-1]}"
        questions.append(_text(entry, "question", place))
        contexts.append(context)
        if not answers:
            continue
        found = [] if entry.get("is_impossible") else entry.get("answers")
        if not isinstance(found, list) or not all(isinstance(answer, dict) for answer in found):
            raise ValueError(
                f"{place}: the answers are not a list of objects. Correct the file; for a question without an "
                f"answer, write an empty list. Received: {found!r}"
            )
        texts = [_text(answer, "text", place) for answer in found]
        y.append({"text": texts, "answer_start": [_start(answer, place) for answer in found]})
    if not ids:
        raise ValueError(f"{path} has no questions. Name another file. Received: {path}")
    if not answers:
        return Rows((questions, contexts), [], str(path), ids, "question")
    firsts = [given["text"][0].strip() if given["text"] else "" for given in y]
    pairs = list(zip(firsts, contexts, strict=True))
    if not any(first in context for first, context in pairs):
        remedy = (
            _FORMS if any(composed(first) in composed(context) for first, context in pairs) else "Correct the file."
        )
        raise ValueError(
            f"None of the answers in {path} is in its context. {remedy} "
            f"Received: {firsts[0]!r} as the answer to the first question, whose id is {ids[0]}"
        )
    odd, forms = [], False
    for context, given, question in zip(contexts, y, ids, strict=True):
        for number, (text, start) in enumerate(zip(*given.values(), strict=True)):
            if not context.startswith(text, start):
                odd.append((text, question))
                forms = forms or (text not in context and composed(text) in composed(context))
                given["answer_start"][number] = nearest_place(context, text, start) if text in context else start
    if odd:
        logger.warning(
            "%d %s not at the place in the context that %s gives. The first is %r for the question %s%s",
            len(odd), "answer is" if len(odd) == 1 else "answers are", path, *odd[0], f". {_FORMS}" if forms else "",
        )  # fmt: skip
    return Rows((questions, contexts), y, str(path), ids, "question")


def question_rows(path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
    """Questions with contexts and answers."""
    return read_squad(path, answers=labels)


def _entries(path: str | os.PathLike) -> list[tuple[str, dict[str, Any]]]:
    text = _read(path)
    try:
        articles = json.loads(text)["data"]
        found = [
            (paragraph["context"], entry)
            for article in articles
            for paragraph in article["paragraphs"]
            for entry in paragraph["qas"]
        ]
        for context, entry in found:
            if not isinstance(context, str) or not isinstance(entry, dict):
                raise TypeError("a context is not a string, or a question is not a JSON object")
        return found
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} is not SQuAD's JSON. Bring it into that form: data > paragraphs > context and qas. "
            f"Received: {type(error).__name__}: {error}"
        ) from None


def _read(path: str | os.PathLike) -> str:
    content = Path(path).read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not in UTF-8, as JSON must be. Save it as UTF-8. Received: "
            f"{error.object[error.start : error.start + 20]!r}"
        ) from None


def _text(entry: dict[str, Any], key: str, place: str) -> str:
    text = entry.get(key)
    if not isinstance(text, str) or is_blank(text):
        raise ValueError(f"{place}: the {key} is empty or not a string. Correct the file. Received: {key}={text!r}")
    return text


def _start(answer: dict[str, Any], place: str) -> int:
    start = answer.get("answer_start")
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise ValueError(
            f"{place}: an answer has no valid answer_start. Correct the file; answer_start counts characters from 0. "
            f"Received: answer_start={start!r}"
        )
    return start
