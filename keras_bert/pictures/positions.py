"""A picture of the position embeddings: how similar any two of them are, compared with fixed sinusoids."""

import os
from typing import Any

import numpy as np
from keras import ops

from keras_bert.nearest import unit
from keras_bert.pictures.style import COLORS, MUTED, new_figure, quiet


def positions(bert: Any, path: str | os.PathLike) -> None:
    """Write a PNG with the cosine of each pair of position vectors, and the mean cosine at each distance.

    >>> import tempfile
    >>> from keras_bert import Bert, BertConfig
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     positions(Bert(BertConfig.from_size("tiny", max_position_embeddings=8)), f"{folder}/positions.png")
    """
    table = ops.convert_to_numpy(ops.cast(bert.get_layer("position_embeddings").embeddings, "float32"))  # [S, H]
    cosines = _cosines(table)  # [S, S]

    figure = new_figure(11, 5)
    whole, curves = figure.subplots(1, 2, width_ratios=(1, 1.15))
    image = whole.imshow(cosines, cmap="RdBu", vmin=-1, vmax=1)
    quiet(whole, "Cosine of each pair of position vectors")
    whole.set(xlabel="position", ylabel="position")
    bar = figure.colorbar(image, ax=whole, shrink=0.8, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelsize=9, length=0)
    curves.plot(_by_distance(cosines), color=COLORS[0], linewidth=1.4, label="learned positions")
    curves.plot(_by_distance(_cosines(_sinusoids(*table.shape))), color=COLORS[1], linewidth=1.4, label="sinusoids")
    quiet(curves, "Mean cosine by distance")
    curves.set(xlabel="distance in positions", ylabel="cosine")
    curves.legend(frameon=False, fontsize=9)
    figure.savefig(path, format="png")


def _cosines(table: np.ndarray) -> np.ndarray:
    vectors = unit(table)
    return vectors @ vectors.T  # [S, S]


def _by_distance(cosines: np.ndarray) -> list[float]:
    """
    >>> _by_distance(np.array([[1.0, 0.5], [0.5, 1.0]]))
    [1.0, 0.5]
    """
    return [float(np.diagonal(cosines, distance).mean()) for distance in range(len(cosines))]


def _sinusoids(count: int, width: int) -> np.ndarray:
    """The fixed positions of Vaswani et al. 2017, section 3.5, [S, H]. The order of columns does not matter."""
    angles = np.arange(count)[:, None] / 10000 ** (2 * np.arange(width // 2) / width)  # [S, H / 2]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)  # [S, H]
