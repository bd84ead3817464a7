"""The style of all pictures: plain axes, and colors that color-blind people can tell apart."""

from typing import Any

COLORS = ("#0b62c4", "#c4541a", "#1b8a5a", "#8a4fbf", "#b8860b", "#d0438b", "#0e8fa8", "#5f6b7a")
INK, MUTED, RULE = "#171a21", "#596273", "#e0e4ea"


def new_figure(width: float, height: float) -> Any:
    """An empty figure of this size in inches, which needs no screen and none of matplotlib's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), dpi=150, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
    FigureCanvasAgg(figure)
    return figure


def quiet(axes: Any, title: str) -> None:
    """Set the title and simplify the axes: two edges instead of four, short ticks, gray instead of black."""
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelsize=9, length=3)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(MUTED)
