"""A map of texts: their vectors, projected on the two directions in which they differ most."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.pictures.fonts import BLANK, fonts_for
from keras_bert.pictures.style import COLORS, MUTED, new_figure, quiet
from keras_bert.storage import check_ending

MARKERS = ("o", "s", "^")
FORMATS = (".png", ".svg", ".pdf")
LABELS = len(COLORS) * len(MARKERS)
NAMED = 150  # how many points may have their text next to them
NO_LABEL = "(empty)"
LONGEST = 24  # how many characters of a text are shown
SIDES = ((6, 0, "left"), (-6, 0, "right"), (0, 9, "center"), (0, -9, "center"))


def draw_embeddings(
    vectors: np.ndarray,
    texts: Sequence[str],
    path: str | os.PathLike,
    *,
    labels: Sequence[str] | None = None,
    format: str | None = None,
) -> None:
    """Write a picture with a point for each text, colored by its label, and the text next to it if there is room.

    Args:
        format: png, svg or pdf; None takes it from the suffix of `path`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_embeddings(np.eye(3), ["one", "two", "three"], f"{folder}/map.png")
    """
    check_map(len(vectors), labels, f".{format}" if format else path)
    kinds = list(dict.fromkeys(labels or ()))
    points, shares = project(vectors)
    names = [_shortened(text) for text in texts[:NAMED]]
    fonts, missing = fonts_for([*names, *kinds])
    blanks = dict.fromkeys(map(ord, missing), BLANK)

    figure = new_figure(10, 7.5)
    axes = figure.subplots()
    size = float(np.clip(4000 / len(points), 6, 42))
    marks = []
    for number, kind in enumerate(kinds or [None]):
        chosen = points if kind is None else points[np.array([label == kind for label in labels or ()])]
        dots = axes.scatter(
            *chosen.T,
            s=size,
            color=COLORS[number % len(COLORS)],
            marker=MARKERS[number // len(COLORS)],
            alpha=0.85,
            linewidths=0.6,
            edgecolors="white",
        )
        marks.append(dots)
    quiet(axes, f"{len(points):,} texts")
    axes.set(
        xlabel=f"first direction, {shares[0]:.0%} of the variance",
        ylabel=f"second direction, {shares[1]:.0%}",
    )
    axes.margins(0.12)
    if kinds:
        axes.legend(
            marks,  # matplotlib leaves out labels that are empty or begin with "_", unless they are given here
            [_shortened(kind).translate(blanks) or NO_LABEL for kind in kinds],
            loc="upper left",
            bbox_to_anchor=(1.01, 1),
            frameon=False,
            prop={"family": fonts, "size": 10},
        )
    reach = np.sqrt(size) / 2 * figure.dpi / 72 + 1  # pixels from the middle of a dot to its edge
    _name_points(figure, axes, points, reach, [name.translate(blanks) for name in names], fonts)
    figure.savefig(path, format=format or Path(path).suffix[1:].lower())


def check_map(count: int, labels: Sequence[str] | None, path: str | os.PathLike) -> None:
    """Raise an error, before any vector is computed, for too few texts, too many labels or an unknown suffix."""
    check_ending(path, FORMATS, "The file of a map")
    if count < 2:
        raise ValueError(f"A map needs at least two texts. Add texts. Received: {'one text' if count else 'no text'}")
    kinds = list(dict.fromkeys(labels or ()))
    if len(kinds) > LABELS:
        raise ValueError(
            f"A map can show at most {LABELS} labels. Leave out the labels, or choose another column. "
            f"Received: {len(kinds)} labels, such as {kinds[0]!r} and {kinds[1]!r}"
        )


def project(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [n, d] projected on their two principal components, [n, 2], and the variance that each explains, [2].

    >>> places, shares = project(np.array([[0.0, 0, 0], [1, 0, 0], [5, 0, 0]]))
    >>> places[:, 0].round(6).tolist(), shares.round(6).tolist()
    ([-2.0, -1.0, 3.0], [1.0, 0.0])
    """
    centred = np.asarray(vectors, "float64") - np.mean(vectors, axis=0, dtype="float64")
    # The products of the shorter axis, [k, k]: a singular value decomposition would need several times the memory.
    is_wide = centred.shape[0] < centred.shape[1]
    variance, axes = np.linalg.eigh(centred @ centred.T if is_wide else centred.T @ centred)  # from the lowest
    variance, axes = np.maximum(variance[::-1], 0), axes[:, ::-1]
    kept = min(2, len(variance))
    places = np.zeros((len(centred), 2))
    places[:, :kept] = axes[:, :kept] * np.sqrt(variance[:kept]) if is_wide else centred @ axes[:, :kept]
    # The signs of the axes are open: we choose them so that the farthest point is on the positive side.
    farthest = places[np.abs(places).argmax(axis=0), [0, 1]]
    places *= np.where(farthest < 0, -1.0, 1.0)
    shares = np.zeros(2)
    if variance.sum() > 0:
        shares[:kept] = variance[:kept] / variance.sum()
    return places, shares


def _shortened(text: str) -> str:
    """
    >>> _shortened("a text that is far too long to fit on a map")
    'a text that is far too…'
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    text = text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
    return text.replace("$", r"\$")  # matplotlib would typeset the text between two of them as a formula


def _name_points(figure: Any, axes: Any, points: np.ndarray, reach: float, names: list[str], fonts: list[str]) -> None:
    """Write the names next to their points, on the first side that is free; a name without room is left out."""
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    pixels = axes.transData.transform(points)  # [n, 2]
    frame = axes.get_window_extent(renderer)
    taken = np.concatenate([pixels - reach, pixels + reach], axis=1)  # [boxes, 4]: left, bottom, right, top
    for index, name in enumerate(names):
        if not name:
            continue
        for right, up, side in SIDES:
            label = axes.annotate(
                name,
                points[index],
                xytext=(right, up),
                textcoords="offset points",
                ha=side,
                va="center",
                fontsize=9,
                family=fonts,
                color=MUTED,
            )
            box = label.get_window_extent(renderer)
            others = np.delete(taken, index, axis=0)
            free = (others[:, 0] > box.x1) | (others[:, 2] < box.x0) | (others[:, 1] > box.y1) | (others[:, 3] < box.y0)
            if free.all() and frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1:
                taken = np.concatenate([taken, [[box.x0, box.y0, box.x1, box.y1]]])
                break
            label.remove()
