"""The variables of a model that Keras 2 saved: as HDF5, as a TensorFlow checkpoint or as a SavedModel.

Nothing in them is run: the layers are not built, and functions stored in an HDF5 file are not read.
"""

import json
import re
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from keras_bert.storage import only_file
from keras_bert.weights import tensor_bundle, weights_h5
from keras_bert.weights.tables import Stored, Table, numbered

_H5_NAMES = ("*.h5", "*.hdf5", "*.weights")
_OPTIMIZER = re.compile(r"(^|/)(_?optimizer|optimizer_weights)/|/\.OPTIMIZER_SLOT/")
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_METRICS = "keras_api/metrics/"


@dataclass(frozen=True)
class Variables:
    """What a file holds.

    folder: where its config and its vocabulary are. stored: the arrays by the names of their variables. places: the
    layer of the saved model that each belongs to. layers: of the saved model by name, as its config has them.
    left_out: what is no weight of the model, with the reason.
    """

    path: Path
    folder: Path
    stored: dict[str, Stored]
    places: dict[str, str]
    layers: dict[str, dict[str, Any]]
    left_out: dict[str, str]

    @property
    def saved_model(self) -> bool:
        return is_saved_model(self.path)

    def renamed(self, aliases: tuple[tuple[str, str], ...]) -> "Variables":
        """With a replacement for each pattern in the names of the variables."""
        stored: dict[str, Stored] = {}
        places = {}
        for name, entry in self.stored.items():
            new = name
            for pattern, plain in aliases:
                new = re.sub(pattern, plain, new)
            add(stored, new, entry, self.path)
            places[new] = self.places[name]
        return replace(self, stored=stored, places=places)


def is_saved_model(path: Path) -> bool:
    return path.is_dir() and (path / "saved_model.pb").is_file()


def h5_file(path: Path) -> Path | None:
    """The HDF5 file that a path is, or that is the only one in the folder."""
    if path.is_dir():
        found = [file for pattern in _H5_NAMES if (file := only_file(path, pattern))]
        path = found[0] if len(found) == 1 else path
    return path if path.is_file() and weights_h5.is_h5(path) else None


def read(path: Path) -> Variables | None:
    """The variables at a path; None where it is in another format."""
    if file := h5_file(path):
        return _of_h5(path, file)
    if is_saved_model(path):
        return _of_checkpoint(path, path / "variables" / "variables")
    prefix = tensor_bundle.prefix_at(path)
    if prefix is None or not tensor_bundle.reader(prefix).has_tensor(tensor_bundle.GRAPH):
        return None
    return _of_checkpoint(path, prefix)


def _of_h5(path: Path, file: Path) -> Variables:
    stored: dict[str, Stored] = {}
    places, left_out = {}, {}
    for key, entry in weights_h5.stored_weights(file).items():
        layer, _, name = key.removeprefix("model_weights/").removesuffix(":0").partition("/")
        if layer == "optimizer_weights":
            left_out[layer] = "it belongs to the optimizer"
        elif entry.shape:  # a scalar counts something or is a switch
            add(stored, name, entry, file)
            places[name] = layer
    return Variables(path, file.parent, stored, places, _layers(file), left_out)


def _layers(file: Path) -> dict[str, dict[str, Any]]:
    """The layers in the config of a whole model; {} for weights only."""
    try:
        data = json.loads(weights_h5.attribute(file, "model_config") or "{}")
        layers = data["config"]["layers"] if data else []
        return {layer["config"]["name"]: layer for layer in layers}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{file} has a model_config in a form that Keras does not write. Save or download it again. "
            f"Received: {error!r}"
        ) from None


def _of_checkpoint(path: Path, prefix: Path) -> Variables:
    nodes = tensor_bundle.object_graph(prefix).nodes
    names = {entry.checkpoint_key: entry.full_name for node in nodes for entry in node.attributes}
    stored: dict[str, Stored] = {}
    places, left_out = {}, {}
    for key, entry in sorted(tensor_bundle.stored_arrays(prefix).items()):
        place = key.removesuffix(_VALUE)
        if not key.endswith(_VALUE) or not entry.shape or place.startswith(_METRICS):
            continue
        if _OPTIMIZER.search(key):
            left_out[place] = "it belongs to the optimizer"
            continue
        name = (names.get(key) or place).removesuffix(":0")
        add(stored, name, entry, prefix)
        places[name] = place.split("/")[0]
    return Variables(path, path if is_saved_model(path) else prefix.parent, stored, places, {}, left_out)


def sizes(encoder: Table, variables: Variables, package: str) -> dict[str, Any]:
    """The sizes of an encoder, which the shapes of its arrays show; all but the number of attention heads."""
    names, stored = {row.ours: row.theirs for row in encoder}, variables.stored
    inner = names["layer_{i}_intermediate/bias"]
    tables = (names[f"{table}_embeddings/embeddings"] for table in ("word", "position", "type"))
    try:
        (vocab_size, hidden), (positions, _), (types, _) = (stored[name].shape for name in tables)
        return {
            "vocab_size": vocab_size,
            "hidden_size": hidden,
            "num_hidden_layers": next(i for i in count() if numbered(inner, i) not in stored),
            "intermediate_size": stored[numbered(inner, 0)].shape[0],
            "max_position_embeddings": positions,
            "type_vocab_size": types,
        }
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{variables.path} does not have the variables of a BERT of {package}. It may be another model: load "
            f"it with its own package. Received: {len(stored)} variables ({error!r})"
        ) from None


def add(stored: dict[str, Stored], name: str, entry: Stored, source: Any) -> None:
    """Add an array. Keras writes an array again for each layer that uses it.

    If two different arrays have one name, reading it is an error. Layers around BERT are never read, so they may share
    names.
    """
    other = stored.setdefault(name, entry)
    if other is entry or isinstance(other, _Ambiguous):
        return

    def refuse() -> NoReturn:
        raise ValueError(
            f"{source} has two different weights named {name}, so it holds more than one BERT. Save only one encoder. "
            f"Received: arrays of shape {list(other.shape)} and {list(entry.shape)}"
        )

    if other.shape != entry.shape:
        refuse()
    if not _equal(other.read(), entry.read()):
        stored[name] = _Ambiguous(entry.shape, refuse)


class _Ambiguous(Stored):
    """What stands for two arrays of one name: reading it is an error."""


def _equal(x: np.ndarray, y: np.ndarray) -> bool:
    return bool(((x == y) | ((x != x) & (y != y))).all())  # NaN is refused later, by a message of its own
