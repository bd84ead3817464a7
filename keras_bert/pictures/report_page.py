"""The page of a report: tables, charts and rows of text as plain HTML, without a script."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from keras_bert.pictures.html_tags import Html, joined, tag
from keras_bert.pictures.one_file_page import one_file_page
from keras_bert.pictures.report_charts import bar, calibration_curve, points

MOST_LABELS = 30  # in a matrix; report.json has all
MOST_ROWS = 300  # of a table
SHADES = 5
NAMED = 5  # pieces that are named with their numbers


def report_page(report: dict[str, Any], unit: str = "row", training_unit: str = "row") -> str:
    """The HTML of a report, from what its report.json has.

    unit, training_unit: what the numbers of the rows and of the training rows are, such as "line".

    >>> parts = {"scores": {}, "details": {}, "parts": {}, "duplicates": None, "warnings": ["<b>"], "file": ""}
    >>> lengths = {"measure": "", "groups": []}
    >>> page = report_page({**parts, "task": "Task", "rows": 1, "lengths": lengths, "worst": None})
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)
    """
    sections = [_section("Scores", _table(["score", "value"], report["scores"].items()))]
    if report["warnings"]:
        warnings = tag("ul", *(tag("li", warning) for warning in report["warnings"]))
        sections.insert(0, _section("Warnings", warnings, class_="warning"))
    if report["details"].get("labels"):
        sections.append(_section("Scores by label", _labels(report["details"])))
    for part in report["parts"].values():
        note = [tag("p", part["note"], class_="hint")] if part["note"] else []
        sections.append(_section(part["title"], *note, _PARTS[part["kind"]](part)))
    sections.append(_section("Scores by length", _lengths(**report["lengths"])))
    if report["worst"]:
        sections.append(_worst(unit, **report["worst"]))
    if report["duplicates"]:
        sections.append(_section("Rows that are in the training rows", *_duplicates(report, unit, training_unit)))
    about = escape(" · ".join(filter(None, [report["file"], f"{report['rows']:,} rows"])))
    title = escape(f"Report of a {report['task']}")
    return one_file_page("report", title=title, about=about, sections=joined(sections, "\n"))


def _section(title: str, *content: Any, class_: str | None = None) -> Html:
    return tag("section", tag("h2", title), *content, class_=class_)


# === Numbers ===


def _table(header: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str = "") -> Html:
    """Rows of a name and of numbers or cells. A wide table scrolls in its frame."""
    rows = list(rows)
    if len(rows) > MOST_ROWS:
        caption += f" The first {MOST_ROWS} of {len(rows):,} rows."
    body = (tag("tr", tag("th", name, scope="row"), *map(_cell, values)) for name, *values in rows[:MOST_ROWS])
    head = tag("tr", *(tag("th", name, scope="col") for name in header))
    above = [tag("caption", caption)] if caption else []
    table = tag("table", *above, tag("thead", head), tag("tbody", *body))
    return tag("div", table, class_="frame", tabindex=0, role="group", aria_label=f"Table: {caption or header[0]}")


def _cell(value: Any) -> Html:
    if isinstance(value, Html):  # a cell already
        return value
    return tag("td", f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value)


def _share(share: float) -> Html:
    """A cell with a number from 0 to 1 and a bar."""
    return tag("td", f"{share:.4f}", bar(share))


def _labels(details: dict[str, Any]) -> Html:
    shares = ("precision", "recall", "f1")
    rows = (
        [name, *(_share(one[share]) for share in shares), one["support"], one["predicted"]]
        for name, one in details["labels"].items()
    )
    return _table(["label", "precision", "recall", "F1", details.get("labels_of", "rows"), "predicted"], rows)


def _lengths(measure: str, groups: list[dict[str, Any]]) -> Html:
    header = ["length of a row", "rows", *([measure] if measure else [])]
    means = ([one["mean"]] if measure else [] for one in groups)
    names = (f"{one['from']:,} to {one['to']:,} characters" for one in groups)
    return _table(header, ([name, one["rows"], *mean] for name, one, mean in zip(names, groups, means, strict=True)))


def _matrix(part: dict[str, Any]) -> Html:
    """The matrix, or that of the labels with the most mistakes."""
    counts, places = part["counts"], range(len(part["counts"]))
    mistakes = [sum(counts[place]) + sum(row[place] for row in counts) - 2 * counts[place][place] for place in places]
    kept = sorted(sorted(places, key=lambda place: -mistakes[place])[:MOST_LABELS])
    largest = max([counts[a][b] for a in kept for b in kept], default=0) or 1

    def cell(count: int) -> Html:
        return tag("td", f"{count:,}", class_=_shade("against", count / largest))

    caption = "Rows: the right answer. Columns: the answer of the task."
    if len(kept) < len(counts):
        caption += f" The {len(kept)} of {len(counts)} with the most mistakes."
    rows = ([part["true"][a], *(cell(counts[a][b]) for b in kept)] for a in kept)
    return _table(["", *(part["answered"][b] for b in kept)], rows, caption)


def _shade(name: str, share: float) -> str | None:
    """The class of a background for a number from 0 to 1."""
    level = round(share * SHADES)
    return f"{name}{level}" if level else None


def _calibration(part: dict[str, Any]) -> Html:
    error = tag("p", f"Expected calibration error: {part['error']:.4f}")
    rows = ([f"{one['confidence']:.4f}", _share(one["accuracy"]), one["rows"]] for one in part["bins"])
    table = _table(["mean probability", "share that is right", "number"], rows)
    return joined([error, calibration_curve(part["bins"]), tag("details", tag("summary", "Table"), table)])


_PARTS: dict[str, Callable[[dict[str, Any]], Html]] = {
    "table": lambda part: _table(part["header"], part["rows"]),
    "matrix": _matrix,
    "calibration": _calibration,
    "points": lambda part: points(part["title"], part["names"], part["x"], part["y"]),
}

# === Rows ===


def _worst(unit: str, title: str, number: int, rows: list[dict[str, Any]]) -> Html:
    if not rows:
        return _section(title, tag("p", "There are none among these rows."))
    said = f"{number:,} rows." if len(rows) == number else f"The first {len(rows)} of {number:,} rows."
    return _section(title, tag("p", said, class_="hint"), *(_row(unit, row) for row in rows))


def _row(unit: str, row: dict[str, Any]) -> Html:
    sure = f", probability {row['confidence']:.4f}" if "confidence" in row else ""
    said = tag("p", "Answer: ", tag("strong", row["answer"]), f"{sure}. Right answer: ", tag("strong", row["true"]))
    pieces = _pieces(row) if "pieces" in row else ()
    return tag("article", tag("h3", f"{unit.capitalize()} {row['row']}"), said, *map(_text, row["texts"]), *pieces)


def _text(text: dict[str, Any]) -> Html:
    """A text with its marks, and how much of it is left out."""
    whole, content, done = text["text"], [], 0
    for mark in text["marks"]:
        name = tag("small", mark["name"])
        marked = tag("mark", whole[mark["start"] : mark["end"]], name, class_=None if mark["right"] else "wrong")
        content += [whole[done : mark["start"]], marked]
        done = mark["end"]
    content.append(whole[done:])
    before, after = (
        tag("small", f"[{text[side]:,} characters {side} this are left out]") if text[side] else ""
        for side in ("before", "after")
    )
    return tag("p", tag("b", text["name"]), before, *content, after, class_="text", dir="auto")


def _pieces(row: dict[str, Any]) -> list[Html]:
    """The pieces, colored by what each adds, and the most important ones in words."""
    if not row["pieces"]:
        return [tag("p", "The row is too long to find the pieces that mattered.", class_="hint")]
    pairs = list(zip(row["pieces"], row["added"], strict=True))
    largest = max(map(abs, row["added"])) or 1
    spans = [tag("span", piece, class_=_shade("for" if x > 0 else "against", abs(x) / largest)) for piece, x in pairs]
    best = sorted(pairs, key=lambda pair: -abs(pair[1]))[:NAMED]
    named = ", ".join(f"“{piece}” {'+' if x > 0 else '−'}{abs(x):.2f}" for piece, x in best if x)
    said = f"Pieces for (+) and against (−) {row['for']}: {named}" if named else "No piece mattered."
    return [tag("p", joined(spans, " "), class_="pieces", dir="auto"), tag("p", said, class_="hint")]


def _duplicates(report: dict[str, Any], unit: str, training_unit: str) -> list[Html]:
    found = report["duplicates"]
    exact, near = found["exact"], found["near"]
    if not exact + near:
        said = f"None of these rows is among the {found['training_rows']:,} training rows or similar to one of them."
        return [tag("p", said)]
    said = (
        f"{exact:,} of {report['rows']:,} rows are equal to a training row, except for case, punctuation and spaces. "
        f"{near:,} have a similarity of at least {found['least_similarity']}, the Jaccard similarity of their runs of "
        "five characters."
    )
    if means := ", ".join(f"{mean:.4f} for the {which}" for which, mean in found["means"].items()):
        said += f" The {found['measure']} is {means}."
    rows = (
        [
            *(str(one[name]) for name in ("row", "training_row")),  # 1234, not 1,234: a place and not an amount
            one["similarity"],
            *(tag("td", text, class_="text") for text in one["texts"]),
        ]
        for one in found["rows"]
    )
    header = [unit, f"training {training_unit}", "similarity", "text", "training text"]
    return [tag("p", said), _table(header, rows)]
