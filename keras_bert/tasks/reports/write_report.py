"""`write_report`: the report of a task on labelled rows, a folder with a page for people and JSON for programs."""

import json
import logging
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_bert.jsonl import plain
from keras_bert.pictures.report_page import report_page
from keras_bert.progress import ProgressLog
from keras_bert.storage import new_folder, write_text
from keras_bert.tasks.metrics.by_label import one_sided
from keras_bert.tasks.reports.findings import Findings, columns_by_name
from keras_bert.tasks.reports.integrated_gradients import integrated_gradients
from keras_bert.tasks.reports.near_duplicates import SIMILARITY, near_duplicates
from keras_bert.wording import listed, plural

logger = logging.getLogger("keras_bert")

SHOWN = 50  # of the worst rows, and of the duplicates
EXPLAINED = 20  # of the worst rows
ROOM = 1_000  # characters of a text that are shown
GROUPS = 5  # of rows by length


def write_report(
    task: Any, directory: str | os.PathLike, columns: tuple[Any, Any], training: Any, places: Sequence[Any], *,
    file: str, batch_size: int, options: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Write index.html and report.json into a new folder, and return what report.json has.

    columns: x and y. training: the columns x of the training rows, or None. places: what each row is called, and each
        training row: a word such as "line", and its numbers; None: they are rows, counted from 0. file: where the rows
        are from.
    """
    x, y = columns
    with new_folder(directory) as folder:  # before the work, so that a folder that cannot be made is an error now
        examples = task.labelled_examples((x, y, None), held_out=True)
        logits = task.logits(examples, batch_size)
        scores = task.report_logits(y, examples, logits, **options)
        details = task.details(y, examples, logits, **options)
        findings = task.findings(x, y, examples, logits, **options)
        count = len(next(iter(findings.columns.values())))
        # Numbers and categories beside the texts are equal in rows that are not.
        texts = {name: column for name, column in findings.columns.items() if name not in task.other_names}
        unit, numbers = places[0] or ("row", range(count))
        training_unit = "row"
        warnings = one_sided(details, count)
        duplicates = None
        if training is not None:
            of_training = columns_by_name(training, tuple(findings.columns))
            if lost := [name for name in texts if name not in of_training]:
                raise ValueError(
                    f"The training rows have other columns of texts than the rows of the report. Pass rows of the "
                    f"same form. Received: {listed(list(of_training))} for training, without {listed(lost)}"
                )
            others = [of_training[name] for name in texts]
            training_unit, training_numbers = places[1] or ("row", range(len(others[0])))
            duplicates = _duplicates(findings, [*texts.values()], others, (numbers, training_numbers))
            warnings += _leakage(duplicates, count)
        for warning in warnings:
            logger.warning("%s", warning)
        report = {
            "task": type(task).__name__,
            "file": file,
            "rows": count,
            "warnings": warnings,
            "scores": scores,
            "details": details,
            "parts": findings.parts,
            "lengths": _lengths(findings, [*texts.values()]),
            "worst": _worst(task, findings, examples, unit, numbers),
            "duplicates": duplicates,
        }
        for name, text in (
            ("report.json", json.dumps(plain(report), ensure_ascii=False)),
            ("index.html", report_page(report, unit, training_unit)),
        ):
            write_text(folder / name, text.encode("utf-8", "replace").decode("utf-8"))  # JSON may have half a character
    logger.info("The report is in %s.", os.path.join(directory, "index.html"))
    return report


def _lengths(findings: Findings, texts: list[list[str]]) -> dict[str, Any]:
    """Groups of about as many rows each, from the shortest to the longest, with the mean of the measure."""
    length = np.sum([[len(text) for text in column] for column in texts], axis=0)  # [n]
    edges = np.unique(np.quantile(length, np.linspace(0, 1, GROUPS + 1), method="higher"))
    group = np.searchsorted(edges[1:-1], length)
    found = []
    for number in np.unique(group):
        inside = group == number
        one = {"from": int(length[inside].min()), "to": int(length[inside].max()), "rows": int(inside.sum())}
        found.append(one if findings.values is None else {**one, "mean": float(findings.values[inside].mean())})
    return {"measure": findings.measure, "groups": found}


def _worst(task: Any, findings: Findings, examples: Any, unit: str, places: Sequence[Any]) -> dict[str, Any] | None:
    """The worst rows, with the pieces that mattered where the task can explain them."""
    if findings.badness is None:
        return None
    number = int((findings.badness > 0).sum())
    order = np.argsort(-findings.badness, kind="stable")[: min(number, SHOWN)].tolist()
    rows: list[dict[str, Any]] = []
    log = ProgressLog("The pieces that mattered", min(len(order), EXPLAINED))
    for row in order:
        shown = findings.show(row)
        texts = [_excerpt(*text) for text in shown.texts]
        one = {"row": places[row], "true": shown.true[:ROOM], "answer": shown.answer[:ROOM], "texts": texts}
        if shown.confidence is not None:
            one["confidence"] = shown.confidence
        explained = findings.explain(row) if findings.explain and len(rows) < EXPLAINED else None
        if explained is not None:
            inputs = examples.inputs(np.array([explained.example]))
            pieces, added = integrated_gradients(task, inputs, explained.value) or ([], [])
            one |= {"pieces": pieces, "added": [round(float(value), 6) for value in added], "for": explained.name}
            log.at(len(rows) + 1, partial(str, f"{unit} {places[row]}"))
        rows.append(one)
    return {"title": findings.worst, "number": number, "rows": rows}


def _excerpt(name: str, text: str, marks: Sequence[Any] = ()) -> dict[str, Any]:
    """The beginning of a text, or of a long text the part around its first mark; the marks are of this part."""
    start = max(0, marks[0].start - ROOM // 4) if marks and len(text) > ROOM else 0
    part = text[start : start + ROOM]
    kept = [
        {"start": mark.start - start, "end": min(mark.end - start, ROOM), "name": mark.name, "right": mark.right}
        for mark in marks
        if mark.start - start < ROOM
    ]
    return {"name": name, "text": part, "before": start, "after": len(text) - start - len(part), "marks": kept}


def _duplicates(
    findings: Findings, columns: list[list[str]], training: list[list[str]], places: Sequence[Any]
) -> dict[str, Any]:
    """How many rows are in the training rows too, what the measure is with and without them, and the first of them."""
    found = near_duplicates(columns, training)
    inside = np.zeros(len(columns[0]), bool)
    inside[[one.row for one in found]] = True
    means = {}
    if findings.values is not None:
        groups = {"duplicates": inside, "others": ~inside}
        means = {name: float(findings.values[rows].mean()) for name, rows in groups.items() if rows.any()}
    shown = [
        {
            "row": places[0][one.row],
            "training_row": places[1][one.training_row],
            "similarity": one.similarity,
            "equal": one.equal,
            "texts": [_joined(columns, one.row), _joined(training, one.training_row)],
        }
        for one in found[:SHOWN]
    ]
    return {
        "exact": sum(one.equal for one in found),
        "near": sum(not one.equal for one in found),
        "least_similarity": SIMILARITY,
        "training_rows": len(training[0]),
        "measure": findings.measure,
        "means": means,
        "rows": shown,
    }


def _joined(columns: list[list[str]], row: int) -> str:
    return " / ".join(column[row] for column in columns)[:ROOM]


def _leakage(duplicates: dict[str, Any], count: int) -> list[str]:
    exact, near = duplicates["exact"], duplicates["near"]
    if not exact + near:
        return []
    return [
        f"In the training rows too: {exact + near} of {count} {plural('row', count)} ({exact} equal, {near} nearly "
        "equal). Scores may be too high, since the model may remember such rows. Evaluate on other rows."
    ]
