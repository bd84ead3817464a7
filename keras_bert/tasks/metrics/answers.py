"""Scores of answers: SQuAD's exact match and F1, and KorQuAD's, which counts characters."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from keras_bert.tasks.columns.text_columns import check_scored

NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
KORQUAD_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))


def answer_scores(true: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, float]:
    """SQuAD's exact match and F1 over words, from 0 to 1, against the best of each question's true answers.

    For a question without answers, an empty prediction is right, as in SQuAD v2.0.

    >>> answer_scores([["the Red Sea"], []], ["red sea.", ""])
    {'exact_match': 1.0, 'f1': 1.0}
    """
    return _scores(true, predicted, _squad, str.split)


def korquad_scores(true: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, float]:
    """KorQuAD's exact match and F1 over characters. Quotes and brackets separate words, and articles are kept.

    >>> korquad_scores([["1989년"]], ["1989년에"])["f1"] > 0.9
    True
    """
    return _scores(true, predicted, _korquad, lambda text: [*text.replace(" ", "")])


def _squad(text: str) -> str:
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(NO_PUNCTUATION)).split())


def _korquad(text: str) -> str:
    return " ".join(text.translate(KORQUAD_MARKS).lower().translate(NO_PUNCTUATION).split())


def _scores(
    true: Sequence[Sequence[str]],
    predicted: Sequence[str],
    normalize: Callable[[str], str],
    units: Callable[[str], list[str]],
) -> dict[str, float]:
    """units: splits a normalized text into what F1 counts."""
    check_scored(true, predicted)
    exact = f1 = 0.0
    for answers, prediction in zip(true, predicted, strict=True):
        found = normalize(prediction)
        wanted = list(filter(None, map(normalize, answers))) or [""]
        exact += found in wanted
        f1 += max(_f1(units(answer), units(found)) for answer in wanted)
    return {"exact_match": exact / len(true), "f1": f1 / len(true)}


def _f1(true: list[str], predicted: list[str]) -> float:
    if not true or not predicted:
        return float(true == predicted)
    common = sum((Counter(true) & Counter(predicted)).values())
    return 2 * common / (len(true) + len(predicted))
