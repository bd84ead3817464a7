"""The charts of a report, as SVG: a calibration curve, points, and bars in tables."""

from collections.abc import Sequence
from typing import Any

from keras_bert.pictures.html_tags import Html, tag

WIDTH, HEIGHT, EDGE = 400, 260, 40
RIGHT, FLOOR, TOP = WIDTH - 10, HEIGHT - EDGE, 10  # where the axes end

Span = tuple[float, float]


def calibration_curve(bins: Sequence[dict[str, Any]]) -> Html:
    """The share that is right over the probability, and the diagonal, where both are the same."""
    places = [_place(one["confidence"], one["accuracy"]) for one in bins]
    content = [
        tag("path", class_="axis", d=f"M{EDGE} {FLOOR}L{RIGHT} {TOP}"),
        tag("polyline", class_="line", points=" ".join(f"{x},{y}" for x, y in places)),
        *(tag("circle", cx=x, cy=y, r=3.5) for x, y in places),
    ]
    label = "Calibration curve. The table below has its numbers."
    return _chart(label, ("probability", "share that is right"), (0, 1), (0, 1), content)


def points(title: str, names: Sequence[str], x: Sequence[float], y: Sequence[float]) -> Html:
    """A point for each row."""
    (left, right), (low, high) = _span(x), _span(y)
    shares = (((a - left) / (right - left), (b - low) / (high - low)) for a, b in zip(x, y, strict=True))
    path = "".join(f"M{a} {b}h0" for a, b in (_place(*one) for one in shares))
    label = f"{title}: a point for each row, {names[0]} from left to right, {names[1]} upwards."
    return _chart(label, names, (left, right), (low, high), [tag("path", class_="points", d=path)])


def bar(share: float) -> Html:
    """A bar whose length is a number from 0 to 1."""
    rect = tag("rect", width=round(100 * share, 1), height=9)
    return tag("svg", rect, class_="bar", viewBox="0 0 100 9", preserveAspectRatio="none", aria_hidden="true")


def _chart(label: str, names: Sequence[str], x: Span, y: Span, content: Sequence[Html]) -> Html:
    """A chart with axes from the lowest to the highest value."""
    axes = [
        tag("path", class_="axis", d=f"M{EDGE} {TOP}V{FLOOR}H{RIGHT}"),
        tag("text", f"{x[0]:.3g}", x=EDGE, y=FLOOR + 14),
        tag("text", f"{x[1]:.3g}", x=RIGHT, y=FLOOR + 14, text_anchor="end"),
        tag("text", names[0], x=(EDGE + WIDTH) / 2, y=FLOOR + 30, text_anchor="middle"),
        tag("text", f"{y[0]:.3g}", x=EDGE - 4, y=FLOOR, text_anchor="end"),
        tag("text", f"{y[1]:.3g}", x=EDGE - 4, y=TOP + 8, text_anchor="end"),
        tag("text", names[1], x=EDGE + 6, y=TOP + 8),
    ]
    return tag("svg", *axes, *content, class_="chart", viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)


def _span(values: Sequence[float]) -> Span:
    low, high = min(values), max(values)
    return low, high if high > low else low + 1


def _place(x: float, y: float) -> tuple[float, float]:
    """Where a point with these shares of the axes is."""
    return round(EDGE + x * (RIGHT - EDGE), 1), round(FLOOR - y * (FLOOR - TOP), 1)
