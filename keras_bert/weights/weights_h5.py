"""Keras's weight files (.weights.h5) as flat names and lazy arrays."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.weights.tables import Stored

WEIGHTS = "model.weights.h5"  # in our folder, and in a KerasHub preset


def stored_weights(path: Path) -> dict[str, Stored]:
    """The arrays by their path in the file, such as layers/dense/vars/0, but not seeds, optimizers and metrics."""
    import h5py

    stored: dict[str, Stored] = {}

    def visit(name: str, entry: Any) -> None:
        if not isinstance(entry, h5py.Dataset):
            return
        if entry.external or entry.is_virtual:  # it could name any file of this machine
            raise ValueError(
                f"{path} takes {name} from another file, which is not allowed. Get a file that holds its own arrays. "
                f"Received: a{' virtual' if entry.is_virtual else 'n external'} dataset"
            )
        if not name.startswith(("optimizer/", "_averages/")) and "seed_generator" not in name:
            stored[name] = Stored(tuple(entry.shape), partial(_read, path, name))

    with _open(path) as file:
        file.visititems(visit)
    return stored


def layer_names(path: Path) -> dict[str, str]:
    """The layer's own name for each group of the file that has weights, such as layers/dense: pooler."""
    names: dict[str, str] = {}

    def visit(name: str, entry: Any) -> None:
        if name.endswith("/vars") and len(entry) and "name" in entry.attrs:
            names[name.removesuffix("/vars")] = str(entry.attrs["name"])

    with _open(path) as file:
        file.visititems(visit)
    return names


def _read(path: Path, name: str) -> np.ndarray:
    with _open(path) as file:
        return np.asarray(file[name])


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """The file; what HDF5 says of a damaged one, in errors of several kinds, becomes one that names it."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is damaged or incomplete. Save or download it again. Received: {str(error).splitlines()[0]}"
        ) from None


def write_weights(path: Path, groups: Iterable[tuple[str, str, list[Stored]]]) -> None:
    """Write (group, layer name, arrays) as Keras's save_weights lays them out."""
    import h5py

    with h5py.File(path, "w") as file:
        for group, name, arrays in groups:
            entry = file.create_group(f"{group}/vars")
            entry.attrs["name"] = name
            for i, array in enumerate(arrays):
                entry.create_dataset(str(i), data=array.read())
