"""A file of vectors, .npy, and the .npy.json beside it, which says of which texts they are."""

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.json")


def write_vectors(file: Path, vectors: Any, texts: list[str], bert: Any) -> None:
    import numpy as np

    from keras_bert.storage import new_file, write_json

    known = {"sha256_of_texts": _digest(texts), "sha256_of_model": _digest_of_model(bert)}
    with new_file(str(file)) as temporary, open(temporary, "wb") as array:
        # With the file itself, np.save does not say why it could not write: no space left, for example.
        np.save(SimpleNamespace(write=array.write), vectors)
    write_json(beside(file), known | {"file": _state(file)})


def is_of_model(file: Path, bert: Any) -> bool:
    """Whether the vectors are of this model, as far as that is known; not if something else wrote the file."""
    from keras_bert.storage import read_json

    known = read_json(beside(file))
    return known.get("file") != _state(file) or known.get("sha256_of_model") in (None, _digest_of_model(bert))


def is_of(file: Path, texts: list[str], corpus: Path) -> bool:
    """Whether the vectors are of these texts, or else written by something else, after the texts were in a file."""
    from keras_bert.storage import read_json

    known = read_json(beside(file))
    if known.get("sha256_of_texts") == _digest(texts):
        return True
    if str(corpus) == "-":
        return False
    return known.get("file") != _state(file) and file.stat().st_mtime >= corpus.stat().st_mtime


def _state(file: Path) -> list[int]:
    """What changes if something else writes the file."""
    found = file.stat()
    return [found.st_size, found.st_mtime_ns]


def _digest_of_model(bert: Any) -> str:
    """A digest of the weights, and of how they are pooled."""
    from keras import ops

    found = hashlib.sha256(repr(bert.pooling).encode())
    for weight in bert.weights:
        found.update(ops.convert_to_numpy(weight).tobytes())
    return found.hexdigest()


def _digest(texts: list[str]) -> str:
    found = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        found.update(b"%d\n%b" % (len(encoded), encoded))
    return found.hexdigest()


def read_vectors(file: Path) -> Any:
    """The array in a file of vectors, on disk."""
    from tokenize import TokenError

    from numpy.lib.format import open_memmap

    try:
        vectors = open_memmap(file, mode="r")
        readable = vectors.dtype.kind == "f" and vectors.ndim == 2
    except (ValueError, SyntaxError, OverflowError, TokenError):  # what numpy raises for a damaged file
        readable = False
    if not readable:
        raise ValueError(
            f"{file} is not a file of vectors that keras-bert wrote. Delete it, or name another file. "
            f"Received: {file.stat().st_size} bytes"
        )
    return vectors
