"""The curves of a training, in a panel for each measure."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from keras_bert.pictures.style import COLORS, MUTED, RULE, new_figure, quiet

Curve = tuple[Sequence[Any], Sequence[Any]]  # steps or epochs, and the values there
STYLES: dict[str, dict[str, Any]] = {
    "training": {"color": COLORS[0], "linestyle": "-"},
    "validation": {"color": COLORS[1], "linestyle": "--"},
}


@contextmanager
def only_a_picture(path: object) -> Iterator[None]:
    """A block that draws a picture of finished work: an error is only logged."""
    try:
        yield
    except Exception as error:
        logging.getLogger("keras_bert").warning(
            "Could not draw %s. The model and the rest of the run are not affected. Received: %s: %s",
            path, type(error).__name__, error,
        )  # fmt: skip


def draw_curves(panels: Mapping[str, Mapping[str, Curve]], xlabel: str, kept: float | None = None) -> Any:
    """A matplotlib figure with a panel for each title.

    Args:
        panels: the curves of each panel, "training" or "validation" or both.
        kept: the step or epoch whose weights are kept; it is marked with a line.

    >>> figure = draw_curves({"loss": {"training": ([1, 2], [0.7, 0.5]), "validation": ([1, 2], [0.8, 0.6])}}, "epoch")
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['training', 'validation']
    """
    from matplotlib.ticker import MaxNLocator

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(5 * columns, 3.4 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).flat
    for (title, curves), axes in zip(panels.items(), grid, strict=False):
        for name, (x, y) in curves.items():
            dots = {"marker": "o", "markersize": 4} if name == "validation" or len(x) <= 30 else {}
            axes.plot(x, y, label=name, linewidth=1.6, **STYLES[name], **dots)
        if kept is not None:
            axes.axvline(kept, color=MUTED, linewidth=1, linestyle=":", label=f"kept: {xlabel} {kept}")
        quiet(axes, title)
        axes.set_xlabel(xlabel)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]))
        axes.grid(axis="y", color=RULE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, fontsize=9)
    for axes in grid:  # an odd number of panels leaves one empty
        axes.remove()
    return figure
