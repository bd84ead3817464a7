"""Vectors for TensorBoard's projector: two tables, and the file that names them for TensorBoard."""

import os
import re
from collections.abc import Sequence

import numpy as np

from keras_bert.storage import new_folder, write_text

CONFIG = 'embeddings {\n  tensor_path: "vectors.tsv"\n  metadata_path: "metadata.tsv"\n}\n'
_BREAKS = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")  # ends a cell or a line for one reader or another


def write_projector(
    folder: str | os.PathLike, vectors: np.ndarray, texts: Sequence[str], labels: Sequence[str] | None = None
) -> None:
    """Write vectors [n, d] and their texts into a new folder, which `tensorboard --logdir` shows.

    Tabs and line ends in a text become spaces. The projector skips blank lines, so an empty text becomes (empty).
    """
    rows = [_cell(text) for text in texts]
    if labels is not None:  # with one column the projector expects no line of names, with two it does
        pairs = zip(rows, map(_cell, labels), strict=True)
        rows = ["text\tlabel", *(f"{text}\t{label}" for text, label in pairs)]
    with new_folder(folder) as partial:
        with open(partial / "vectors.tsv", "w", encoding="utf-8") as table:
            np.savetxt(table, vectors, fmt="%.9g", delimiter="\t")  # 9 digits are exact for float32
        write_text(partial / "metadata.tsv", "".join(f"{row}\n" for row in rows))
        write_text(partial / "projector_config.pbtxt", CONFIG)


def _cell(text: str) -> str:
    return _BREAKS.sub(" ", text).strip() or "(empty)"
