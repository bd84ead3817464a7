"""The weight files of a HuggingFace folder: safetensors, and torch's, TensorFlow's and Flax's own."""

import json
import math
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.storage import most_unpacked, read_json
from keras_bert.weights import flax_file, weights_h5
from keras_bert.weights.tables import Stored
from keras_bert.wording import listed

WHOLE = "model.safetensors"
_POINTER = b"version https://git-lfs.github.com/spec/"  # the first bytes of a pointer of Git LFS


def stored_weights(folder: Path) -> dict[str, Stored]:
    """The arrays of the first of `WEIGHT_FILES` that the folder has."""
    for name, read in WEIGHT_FILES.items():
        if (folder / name).is_file():
            return _read_file(folder / name, read)
        if (folder / f"{name}.index.json").is_file():
            return _sharded(folder / f"{name}.index.json", read)
    if shards := sorted(path.name for path in folder.glob("*-of-*")):
        raise FileNotFoundError(
            f"{folder} has shards of a model, but not the index that names them, such as {WHOLE}.index.json. Download "
            f"it too. Received: {listed(shards)}"
        )
    saved_model = folder / "saved_model" / "1"
    instead = f"load its SavedModel, {saved_model}" if saved_model.is_dir() else "save the model again"
    raise ValueError(
        f"{folder} is a HuggingFace folder without weights. Copy them into it, or {instead}. "
        f"Received: none of {', '.join(WEIGHT_FILES)}"
    )


def _read_file(path: Path, read: Callable[[Path], dict[str, Stored]]) -> dict[str, Stored]:
    with open(path, "rb") as file:
        is_pointer = file.read(len(_POINTER)) == _POINTER
    if is_pointer:
        raise ValueError(
            f"{path} has no weights: it is a pointer, which Git puts in the place of a large file. Run: git lfs pull, "
            f"in the folder of the repository. Received: {path.stat().st_size} bytes"
        )
    return read(path)


def _safetensors(path: Path) -> dict[str, Stored]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np"):  # which checks that the header is sound and the file as long as it says
            pass
    except SafetensorError as error:
        raise ValueError(
            f"{path} is damaged or incomplete. Download it again. Received: {path.stat().st_size} bytes "
            f"({str(error).rstrip('.')})"
        ) from None
    # The arrays are read with NumPy: a mapped file would count as memory in addition to the model.
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {
        name: Stored(tuple(entry["shape"]), partial(_read, path, 8 + length, entry)) for name, entry in header.items()
    }


def _read(path: Path, start: int, entry: dict[str, Any]) -> np.ndarray:
    import ml_dtypes

    dtypes = {"F64": "f8", "F32": "f4", "F16": "f2", "BF16": ml_dtypes.bfloat16, "I64": "i8", "I32": "i4"}
    if entry["dtype"] not in dtypes:
        raise ValueError(
            f"{path} has weights of a type that cannot be read. Save them as one of {', '.join(dtypes)}. "
            f"Received: {entry['dtype']}"
        )
    shape, (begin, _) = entry["shape"], entry["data_offsets"]
    kind, count = np.dtype(dtypes[entry["dtype"]]), math.prod(shape)
    return np.fromfile(path, kind, count, offset=start + begin).reshape(shape)


def _sharded(path: Path, read: Callable[[Path], dict[str, Stored]]) -> dict[str, Stored]:
    files = read_json(path).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise ValueError(
            f"{path} has no weight_map from weights to file names. Download it again. Received: {type(files).__name__}"
        )
    shards = sorted(set(files.values()))
    strays = [name for name in shards if Path(name).name != name]
    if strays:
        raise ValueError(
            f"{path} names shards outside its own folder. Put them beside it, and correct its weight_map. "
            f"Received: {listed(strays)}"
        )
    absent = [name for name in shards if not (path.parent / name).is_file()]
    if absent:
        raise FileNotFoundError(
            f"{path.parent} lacks shards of the model: {listed(absent)}. Download them into it. "
            f"Received: {len(shards) - len(absent)} of {len(shards)} shards"
        )
    stored: dict[str, Stored] = {}
    for name in shards:
        stored |= _read_file(path.parent / name, read)
    return stored


def _torch(path: Path) -> dict[str, Stored]:
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"Only torch can read {path}. Install it (pip install torch), or save the model as {WHOLE} with "
            "transformers' save_pretrained. Received: no torch on this machine"
        ) from None
    try:
        # Before torch 1.6 the file was not a zip, and only a zip can be mapped.
        if zipped := zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                size = sum(part.file_size for part in archive.infolist())
            if size > most_unpacked(path):  # torch would unpack it into memory
                raise zipfile.BadZipFile(f"a zip that unpacks to {size} bytes")
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
        others = [str(name) for name, tensor in state.items() if not isinstance(tensor, torch.Tensor)]
        problem = f"not tensors: {listed(others)}" if others else _unlike_weights(state)
    except Exception as error:
        problem = _in_short(error)
    if problem:
        raise ValueError(
            f"{path} could not be read: it is damaged, or holds something other than the tensors that "
            f"torch.save(model.state_dict()) writes. Save the model as {WHOLE}, or download it again. "
            f"Received: {problem}"
        )

    def read(name: str) -> np.ndarray:
        tensor = state[name]
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    return {name: Stored(tuple(tensor.shape), partial(read, name)) for name, tensor in state.items()}


def _unlike_weights(state: Mapping[Any, Any]) -> str:
    """What is wrong with the names or the kinds of the tensors; empty if nothing is."""
    import torch

    if numbers := [str(name) for name in state if not isinstance(name, str)]:
        return f"names of tensors that are not text: {listed(numbers)}"
    if odd := [name for name, x in state.items() if x.layout != torch.strided or x.is_meta or x.is_quantized]:
        return f"sparse, meta or quantized tensors: {listed(odd)}"
    if spread := [name for name, x in state.items() if x.nbytes > x.untyped_storage().nbytes()]:
        return f"tensors that are larger than their data: {listed(spread)}"
    return ""


def _in_short(error: Exception) -> str:
    """Torch's message about the file, without its page on files that may run code."""
    said = str(error).rpartition("WeightsUnpickler error:")[2].strip()
    return f"{type(error).__name__}: {said.splitlines()[0].split('. ')[0]}" if said else type(error).__name__


WEIGHT_FILES = {  # in the order in which they are looked for; any of them may be in shards, with an index
    WHOLE: _safetensors,
    "pytorch_model.bin": _torch,
    "tf_model.h5": weights_h5.stored_weights,
    "flax_model.msgpack": flax_file.stored_weights,
}


def write_weights(folder: Path, stored: Mapping[str, Stored]) -> None:
    """Write model.safetensors as transformers does."""
    from safetensors.numpy import save_file

    path = folder / WHOLE
    path.touch()
    mode = path.stat().st_mode  # of an ordinary file; save_file leaves one that only its owner can read
    save_file({name: entry.read() for name, entry in stored.items()}, path, metadata={"format": "pt"})
    path.chmod(mode)
