"""The files in tests/fixtures/old, and what our model computes for the inputs that are in them."""

import atexit
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import numpy as np

from tests.weights import small

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "old"


@cache
def unpacked(name):
    """The folder with the files of a fixture, and the outputs that the package which wrote them computed."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as file:
        file.extractall(folder.name)
    return Path(folder.name), dict(np.load(Path(folder.name, "outputs.npz")))


def ours(checkpoint, theirs, padding=True):
    """Our outputs for the ids of a fixture, with every position as a masked one, and the mask."""
    ids, types = theirs["ids"].astype("int32"), theirs["types"].astype("int32")
    inputs = {"input_word_ids": ids, "input_mask": ((ids > 0) | (not padding)).astype("int32"), "input_type_ids": types}
    positions = np.tile(np.arange(ids.shape[1], dtype="int32"), (len(ids), 1))
    return small.outputs(checkpoint, inputs, positions), inputs["input_mask"]
