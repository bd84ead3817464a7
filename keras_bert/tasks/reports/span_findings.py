"""Findings of tasks that answer with parts of a text: entities, and answers to questions."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_bert.tasks.decoding.answer_spans import find_answer, true_texts
from keras_bert.tasks.decoding.entities import Entity, span_of
from keras_bert.tasks.reports.findings import Explained, Findings, Mark, Shown, compared
from keras_bert.tasks.reports.parts import matrix, table
from keras_bert.tasks.rows.labelled_rows import LabelledRows

NONE = "(none)"
KINDS = ("right", "another type", "another start or end", "not found", "should not be there")


def entity_findings(task: Any, y: Sequence[Any], examples: LabelledRows, logits: list[np.ndarray]) -> Findings:
    """The entities of each text, those that are right and those of the answer; tags are entities of one word."""
    texts, true, answered = examples.decoding.texts, _true_entities(task, y, examples), task.decode(examples, logits)
    counts: Counter[tuple[str, str]] = Counter()  # of (right type, answered type)
    kinds: Counter[str] = Counter()
    badness = np.zeros(len(texts))
    for row, (wanted, found) in enumerate(zip(true, answered, strict=True)):
        missing = {(one.start, one.end): one for one in wanted}
        extra = []
        for one in found:
            same = missing.pop((one.start, one.end), None)
            if same is None:
                extra.append(one)
                continue
            counts[same.type, one.type] += 1
            kinds[KINDS[0] if same.type == one.type else KINDS[1]] += 1
            badness[row] += same.type != one.type
        for one in missing.values():
            kinds[KINDS[2] if any(map(_overlaps(one), extra)) else KINDS[3]] += 1
            counts[one.type, NONE] += 1
        for one in extra:
            if not any(map(_overlaps(one), missing.values())):
                kinds[KINDS[4]] += 1
            counts[NONE, one.type] += 1
        badness[row] += len(missing) + len(extra)

    def show(row: int) -> Shown:
        keys = [set(map(span_of, entities)) for entities in (answered[row], true[row])]
        sides = (("right answer", true[row], keys[0]), ("answer", answered[row], keys[1]))
        marked = [
            (name, texts[row], [Mark(one.start, one.end, one.type, span_of(one) in others) for one in own])
            for name, own, others in sides
        ]
        return Shown(marked, _listed(true[row]), _listed(answered[row]))

    types = sorted({kind for pair in counts for kind in pair} - {NONE})
    names = [*types, *([NONE] if any(NONE in pair for pair in counts) else [])]
    table_of = np.array([[counts[a, b] for b in names] for a in names])  # [T + 1, T + 1]
    note = (
        "An answered entity and a right entity match if they have the same start and end. "
        f"{NONE} means that an entity has no match."
    )
    parts = {
        "confusion": matrix("Confusion of types", names, table_of, note),
        "kinds": table("Kinds of mistakes", ["entities", "number"], [[kind, kinds[kind]] for kind in KINDS]),
    }
    worst = "Rows with the most mistakes"
    explain = _explained_tags(task.labels, examples, logits)
    return Findings(
        {"text": texts}, show, "share of rows without a mistake", badness == 0, worst, badness, explain, parts
    )


def _explained_tags(
    labels: Sequence[str], examples: LabelledRows, logits: list[np.ndarray]
) -> Callable[[int], Explained | None]:
    """How the label of the first word of a text that got a wrong one is explained."""
    units, splits = examples.decoding, np.asarray(examples.segments[0].row_splits)  # pieces before each example
    true, weights = (np.asarray(one.flat_values) for one in (examples.targets, examples.weights))  # of each piece
    of_examples = [row[1 : 1 + size].argmax(-1) for row, size in zip(logits, np.diff(splits), strict=True)]
    answered = np.concatenate([np.zeros(0, "int64"), *of_examples])
    wrong = np.flatnonzero((answered != true) & (weights > 0))

    def explain(row: int) -> Explained | None:
        begin, end = np.searchsorted(wrong, units.splits[row : row + 2])
        if begin == end:  # a mistake of the entity's start or end, though each label is right
            return None
        piece = wrong[begin]
        example = int(np.searchsorted(splits, piece, "right")) - 1
        place, ours, right = int(1 + piece - splits[example]), int(answered[piece]), int(true[piece])
        word = units.texts[row][units.start[piece] : units.end[piece]]
        name = f"{labels[ours]} in place of {labels[right]} at “{word}”"
        return compared(example, [(place, ours)], [(place, right)], name)

    return explain


def _true_entities(task: Any, y: Sequence[Any], examples: LabelledRows) -> list[list[Entity]]:
    """The right entities of each text. Tags of words are read as the task reads its own."""
    units = examples.decoding
    if not units.given_words:
        spans = [sorted(span_of(entity) for entity in row) for row in y]
        rows = zip(units.texts, spans, strict=True)
        return [[Entity(kind, text[start:end], start, end, 1.0) for start, end, kind in row] for text, row in rows]
    certain = 100 * np.eye(len(task.labels), dtype="float32")
    # The first position is that of [CLS].
    return task.decode(examples, [certain[[0, *ids]] for ids in examples.targets.to_list()])


def _overlaps(one: Entity) -> Any:
    return lambda other: other.start < one.end and one.start < other.end


def _listed(entities: Sequence[Entity]) -> str:
    return ", ".join(f"{one.text} ({one.type})" for one in entities) or NONE


def answer_findings(
    columns: dict[str, list[str]], true: Sequence[Any], answers: Sequence[Any], f1: np.ndarray,
    examples: LabelledRows, logits: list[np.ndarray],
) -> Findings:  # fmt: skip
    """Answers to questions, and the F1 of each [n]: first those that are wrong with a high probability."""
    questions, contexts = columns.values()

    def show(row: int) -> Shown:
        answer, right = answers[row], true_texts(true[row])
        span = find_answer(contexts[row], true[row], row) or (0, 0)
        marks = [Mark(*span, "right answer")] if span[1] else []
        if answer.start is not None and not (span[1] and answer.start < span[1] and span[0] < answer.end):
            marks.append(Mark(answer.start, answer.end, "answer", right=False))
        texts = [("question", questions[row], ()), ("context", contexts[row], sorted(marks, key=lambda one: one.start))]
        wanted = " / ".join(dict.fromkeys(filter(None, right))) or "no answer"
        return Shown(texts, wanted, answer.text or "no answer", answer.score)

    sure = np.array([answer.score for answer in answers])
    # A missed answer of probability 0 is a mistake too.
    badness = np.where(f1 < 1, (1 - f1) * np.maximum(sure, 1e-6), 0)
    explain = _explained_answers(answers, examples, logits)
    return Findings(columns, show, "mean F1", f1, "Worst answers", badness, explain)


def _explained_answers(
    answers: Sequence[Any], examples: LabelledRows, logits: list[np.ndarray]
) -> Callable[[int], Explained | None]:
    """How an answer is explained: by its start and end, against those of the right answer in the same window."""
    places, targets = examples.decoding.places, np.asarray(examples.targets)  # of each window
    edges = np.searchsorted(places["example"], range(len(answers) + 1))  # the windows of each question

    def explain(row: int) -> Explained | None:
        answer, found = answers[row], []
        for window in range(*edges[row : row + 2]):
            if answer.start is None:
                spans = [(0, 0)] if targets[window].any() else []  # where the right answer is
            else:
                first, last = (
                    np.flatnonzero(places[name][window] == getattr(answer, name))[:1] for name in ("start", "end")
                )
                spans = list(zip(first.tolist(), last.tolist(), strict=False))
            found += [(sum(logits[window][[0, 1], span]), window, span) for span in spans]
        if not found:
            return None
        _, window, span = max(found)
        return compared(window, list(enumerate(span)), list(enumerate(targets[window].tolist())))

    return explain
