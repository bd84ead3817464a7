"""HDF5 files of Keras (.weights.h5, and Keras 2's .h5) as flat names and lazy arrays."""

import io
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.storage import most_unpacked
from keras_bert.weights.tables import Stored

WEIGHTS = "model.weights.h5"  # in our folder, and in a KerasHub preset


def stored_weights(path: Path) -> dict[str, Stored]:
    """The arrays by their path in the file, such as layers/dense/vars/0, but not seeds, optimizers and metrics."""
    import h5py

    stored: dict[str, Stored] = {}
    sizes: list[int] = []

    def visit(name: str, entry: Any) -> None:
        if not isinstance(entry, h5py.Dataset):
            return
        if entry.external or entry.is_virtual:  # it could name any file of this machine
            raise ValueError(
                f"{path} takes {name} from another file, which is not allowed. Get a file that holds its own arrays. "
                f"Received: a{' virtual' if entry.is_virtual else 'n external'} dataset"
            )
        if entry.shape is None or entry.dtype.kind not in "fiub":  # empty; strings, references, complex numbers, pairs
            raise ValueError(
                f"{path} has {name}, which is not an array of numbers. Save the model again, in float32. "
                f"Received: {'an empty dataset' if entry.shape is None else entry.dtype}"
            )
        if entry.size and not entry.id.get_storage_size():
            raise ValueError(
                f"{path} has {name} without its numbers. Save or download it again. Received: a dataset of "
                f"{entry.size} numbers that takes no space"
            )
        if not name.startswith(("optimizer/", "_averages/")) and "seed_generator" not in name:
            stored[name] = Stored(tuple(entry.shape), partial(_read, path, name))
            sizes.append(math.prod(entry.shape) * entry.dtype.itemsize)

    with _opened(path) as file:
        file.visititems(visit)
    if (size := sum(sizes)) > (most := most_unpacked(path)):
        raise ValueError(
            f"{path} would unpack to far more than its own size, which no weights do. Save or download it again. "
            f"Received: {size} bytes, where {most} is the limit"
        )
    return stored


def unpacked_size(file: Any) -> int:
    """How many bytes the arrays of an open file take, by its headers."""
    import h5py

    sizes: list[int] = []

    def visit(_: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset):
            sizes.append(math.prod(entry.shape or (0,)) * entry.dtype.itemsize)

    with h5py.File(file, "r") as opened:
        opened.visititems(visit)
    return sum(sizes)


def is_h5(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(8) == b"\x89HDF\r\n\x1a\n"


def attribute(path: Path, name: str) -> str:
    """A text that belongs to the whole file; "" without it."""
    with _opened(path) as file:
        value = file.attrs.get(name, "")
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def layer_names(path: Path) -> dict[str, str]:
    """The layer's own name for each group of the file that has weights, such as layers/dense: pooler."""
    import h5py

    names: dict[str, str] = {}

    def visit(name: str, entry: Any) -> None:
        if name.endswith("/vars") and isinstance(entry, h5py.Group) and len(entry) and "name" in entry.attrs:
            names[name.removesuffix("/vars")] = str(entry.attrs["name"])

    with _opened(path) as file:
        file.visititems(visit)
    return names


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The open file; what h5py raises for a damaged one becomes an error that names it."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(f"{path} is damaged or incomplete. Save or download it again. Received: {error}") from None


def _read(path: Path, name: str) -> np.ndarray:
    with _opened(path) as file:
        return np.asarray(file[name])


def write_weights(path: Path, groups: Iterable[tuple[str, str, list[Stored]]]) -> None:
    """Write (group, layer name, arrays) as Keras's save_weights lays them out."""
    import h5py

    whole = io.BytesIO()  # HDF5 crashes the process if the disk is full
    with h5py.File(whole, "w") as file:
        for group, name, arrays in groups:
            entry = file.create_group(f"{group}/vars")
            entry.attrs["name"] = name
            for i, array in enumerate(arrays):
                entry.create_dataset(str(i), data=array.read())
    path.write_bytes(whole.getbuffer())
