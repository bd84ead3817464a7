"""The weight files of a HuggingFace folder: safetensors, whole or sharded, and torch's pytorch_model.bin."""

import json
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.storage import read_json
from keras_bert.weights.names import Stored
from keras_bert.wording import listed

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
TORCH = "pytorch_model.bin"
_UNREAD = ("pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack", "model.onnx")


def stored_weights(folder: Path) -> dict[str, Stored]:
    """The folder's arrays by HuggingFace's names."""
    if (folder / WHOLE).is_file():
        return _safetensors(folder / WHOLE)
    if (folder / INDEX).is_file():
        return _sharded(folder / INDEX)
    if (folder / TORCH).is_file():
        return _torch(folder / TORCH)
    found = [name for name in _UNREAD if (folder / name).exists()]
    raise ValueError(
        f"A HuggingFace folder must hold {WHOLE}. Save the model with transformers' "
        f"save_pretrained(folder, safe_serialization=True). Received: {folder} with {listed(found) or 'no weights'}"
    )


def _safetensors(path: Path) -> dict[str, Stored]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np"):  # which checks that the header is sound and the file as long as it says
            pass
    except SafetensorError as error:
        raise ValueError(
            f"A safetensors file must be whole. Download it again. Received: {path}, {path.stat().st_size} bytes "
            f"({str(error).rstrip('.')})"
        ) from None
    # The arrays are read with NumPy: a mapped file would count as memory beside the model.
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
        raise ValueError(f"Weights must be of a type among {', '.join(dtypes)}. Received: {entry['dtype']} in {path}")
    shape, (begin, _) = entry["shape"], entry["data_offsets"]
    count = int(np.prod(shape, dtype=int))
    return np.fromfile(path, np.dtype(dtypes[entry["dtype"]]), count, offset=start + begin).reshape(shape)


def _sharded(path: Path) -> dict[str, Stored]:
    files = read_json(path).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise ValueError(f"{INDEX} must have a weight_map of file names. Get it again. Received: {path}")
    shards = sorted(set(files.values()))
    strays = [name for name in shards if Path(name).name != name]
    if strays:
        raise ValueError(
            f"Shards must lie beside {INDEX}. Correct its weight_map. Received: {listed(strays)} in {path}"
        )
    absent = [name for name in shards if not (path.parent / name).is_file()]
    if absent:
        raise FileNotFoundError(f"A sharded model needs all its files. Get {listed(absent)}. Received: {path.parent}")
    stored: dict[str, Stored] = {}
    for name in shards:
        stored |= _safetensors(path.parent / name)
    if lacking := sorted(set(files) - set(stored)):
        raise ValueError(
            f"The shards must hold what {INDEX} lists. Missing: {listed(lacking)}. Received: {path.parent}"
        )
    return stored


def _torch(path: Path) -> dict[str, Stored]:
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"{TORCH} is read by torch alone. Run: pip install torch, or save the model as {WHOLE} with transformers' "
            f"save_pretrained. Received: {path}"
        ) from None
    try:
        # Before torch 1.6 the file was no zip, and only a zip can be mapped.
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        if others := [name for name, tensor in state.items() if not isinstance(tensor, torch.Tensor)]:
            raise TypeError(f"no tensor: {listed(list(map(str, others)))}")
    except Exception as error:
        raise ValueError(
            f"{TORCH} must be a whole file of tensors alone, as torch.save(model.state_dict()) writes it. Save the "
            f"model as {WHOLE}, or download it again. Received: {path} ({_in_short(error)})"
        ) from None

    def read(name: str) -> np.ndarray:
        tensor = state[name]
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    return {name: Stored(tuple(tensor.shape), partial(read, name)) for name, tensor in state.items()}


def _in_short(error: Exception) -> str:
    """What torch says of the file, without its page on loading what may run code."""
    said = str(error).rpartition("WeightsUnpickler error:")[2].strip()
    return f"{type(error).__name__}: {said.splitlines()[0].split('. ')[0]}" if said else type(error).__name__


def write_weights(folder: Path, stored: Mapping[str, Stored]) -> None:
    """Write model.safetensors, in the form that torch users expect."""
    from safetensors.numpy import save_file

    path = folder / WHOLE
    path.touch()
    mode = path.stat().st_mode  # of an ordinary file; save_file leaves one that its owner alone can read
    save_file({name: entry.read() for name, entry in stored.items()}, path, metadata={"format": "pt"})
    path.chmod(mode)
