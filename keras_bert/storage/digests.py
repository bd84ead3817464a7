"""Digests, by which files are known again."""

import hashlib
import os

from keras_bert.storage.files import read_bytes
from keras_bert.storage.paths import is_remote


def sha256_of(path: str | os.PathLike) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    if is_remote(path):
        return hashlib.sha256(read_bytes(path)).hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
