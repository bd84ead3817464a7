"""A picture of a learned table of positions: how alike any two of its vectors are."""

import os
from typing import Any

import numpy as np
from keras import ops

from keras_bert.pictures.style import COLORS, MUTED, new_figure, quiet, save


def positions(bert: Any, path: str | os.PathLike) -> None:
    """Write a PNG with the cosines of all pairs of position vectors, and those of a few positions as curves.

    >>> import tempfile
    >>> from keras_bert import Bert, BertConfig
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     positions(Bert(BertConfig.from_size("tiny", max_position_embeddings=8)), f"{folder}/positions.png")
    """
    table = ops.convert_to_numpy(ops.cast(bert.get_layer("position_embeddings").embeddings, "float32"))  # [S, H]
    unit = table / np.linalg.norm(table, axis=-1, keepdims=True)
    cosines = unit @ unit.T  # [S, S]
    count = len(cosines)

    figure = new_figure(11, 5)
    whole, curves = figure.subplots(1, 2, width_ratios=(1, 1.15))
    image = whole.imshow(cosines, cmap="RdBu", vmin=-1, vmax=1)
    quiet(whole, "Cosine of any two position vectors")
    whole.set(xlabel="position", ylabel="position")
    bar = figure.colorbar(image, ax=whole, shrink=0.8, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelsize=9, length=0)
    for color, position in zip(COLORS, sorted({count // 8, count // 2, count * 7 // 8}), strict=False):
        curves.plot(cosines[position], color=color, linewidth=1.2, label=f"to position {position}")
    quiet(curves, "Three rows of it")
    curves.set(xlabel="position", ylabel="cosine")
    curves.legend(frameon=False, fontsize=9)
    save(figure, path)
