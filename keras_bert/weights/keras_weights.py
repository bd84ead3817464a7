"""Keras's weight files (.weights.h5) as flat names and lazy arrays."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.weights.names import Stored


def stored_weights(path: Path) -> dict[str, Stored]:
    """The arrays by their path in the file, such as layers/dense/vars/0, but not seeds, optimizers and metrics."""
    return {
        name: Stored(shape, partial(_read, path, name))
        for name, shape in _visit(path)
        if not name.startswith(("optimizer/", "_averages/")) and "seed_generator" not in name
    }


def layer_names(path: Path) -> dict[str, str]:
    """The layer's own name for each group of the file that has weights, such as layers/dense: pooler."""
    names: dict[str, str] = {}

    def visit(name: str, entry: Any) -> None:
        if name.endswith("/vars") and len(entry) and "name" in entry.attrs:
            names[name.removesuffix("/vars")] = str(entry.attrs["name"])

    with _open(path) as file:
        file.visititems(visit)
    return names


def _visit(path: Path) -> list[tuple[str, tuple[int, ...]]]:
    found: list[tuple[str, tuple[int, ...]]] = []

    def visit(name: str, entry: Any) -> None:
        if hasattr(entry, "shape"):
            found.append((name, tuple(entry.shape)))

    with _open(path) as file:
        file.visititems(visit)
    return found


def _read(path: Path, name: str) -> np.ndarray:
    with _open(path) as file:
        try:
            return np.asarray(file[name])
        except OSError:
            raise ValueError(f"A weight file must be whole. Get it again. Received: {name} in {path}") from None


def _open(path: Path) -> Any:
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError:
        raise ValueError(f"A .weights.h5 must be a whole HDF5 file. Get it again. Received: {path}") from None


def write_weights(path: Path, groups: Iterable[tuple[str, str, list[Stored]]]) -> None:
    """Write (group, layer name, arrays) as Keras's save_weights lays them out."""
    import h5py

    with h5py.File(path, "w") as file:
        for group, name, arrays in groups:
            entry = file.create_group(f"{group}/vars")
            entry.attrs["name"] = name
            for i, array in enumerate(arrays):
                entry.create_dataset(str(i), data=array.read())
