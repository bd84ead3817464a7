"""TensorFlow's checkpoint files: names, shapes and arrays of a prefix.index and its data files."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from keras_bert.compat import read_object_graph
from keras_bert.installation import need_tensorflow
from keras_bert.lazy import tf
from keras_bert.storage import literal_path, only_file
from keras_bert.weights.tables import Stored
from keras_bert.wording import first_line

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def prefix_at(path: Path) -> Path | None:
    """The prefix of the checkpoint at a path: itself, one of its files, or the folder that holds only this one."""
    if os.path.isdir(path):
        index = only_file(path, "*.index")
        return index.with_suffix("") if index else None
    if os.path.isfile(f"{path}.index"):  # False for a name that is too long, where Path.is_file fails
        return path
    stem = path.name.removesuffix(".index").split(".data-")[0]
    prefix = path.with_name(stem)
    return prefix if os.path.isfile(path) and prefix.with_name(stem + ".index").is_file() else None


def reader(prefix: Path) -> Any:
    need_tensorflow(f"The checkpoint {prefix}")
    try:
        return tf.train.load_checkpoint(literal_path(prefix))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{prefix}.index is damaged, or its .data files are not beside it. Download them again. "
            f"Received: {first_line(error).rstrip('.')}"
        ) from None


def stored_arrays(prefix: Path) -> dict[str, Stored]:
    """The checkpoint's arrays by their keys."""
    source = reader(prefix)
    _check_data(prefix)
    shapes = source.get_variable_to_shape_map()
    return {name: Stored(tuple(shape), partial(_read, source, prefix, name)) for name, shape in shapes.items()}


def _read(source: Any, prefix: Path, name: str) -> Any:
    try:
        return source.get_tensor(name)
    except Exception as error:  # of several kinds, IndexError among them
        raise ValueError(
            f"{prefix} has a damaged or incomplete .data file. Copy, download or export it again. "
            f"Received: {first_line(error).rstrip('.')}, when reading {name}"
        ) from None


def _check_data(prefix: Path) -> None:
    if not any(file.name.startswith(f"{prefix.name}.data-") for file in prefix.parent.iterdir()):
        raise FileNotFoundError(
            f"{prefix.parent} has a checkpoint's .index without its .data file. Put {prefix.name}.data-00000-of-00001 "
            "beside it. Received: no such file"
        )


def write_arrays(prefix: Path, arrays: Mapping[str, Stored]) -> None:
    """Write prefix.index and prefix.data-00000-of-00001, as TF1's Saver does."""
    names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[arrays[name].read() for name in names],
    )


def object_graph(prefix: Path) -> Any:
    """What an object-based checkpoint says about itself: each variable's name, key and place."""
    return read_object_graph(_read(reader(prefix), prefix, GRAPH))
