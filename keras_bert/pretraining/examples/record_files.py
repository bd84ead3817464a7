"""TFRecord files: finding them, counting their records, and noticing damage."""

import logging
import os
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_bert.lazy import tf
from keras_bert.storage import exists, matching, open_file, size_of

logger = logging.getLogger(__name__)

_HEADER = struct.Struct("<QI")  # the length of the record that follows, and its checksum
_FOOTER_SIZE = 4  # the record's own checksum


def find_records(source: str | os.PathLike | Iterable[str | os.PathLike]) -> list[str]:
    """The files that paths, patterns and folders name; in a folder, those with "tfrecord" in their names."""
    gfile = tf.io.gfile
    found: list[str] = []
    for path in [source] if isinstance(source, str | os.PathLike) else source:
        name = os.fspath(path)
        if gfile.isdir(name):
            files = [os.path.join(name, file) for file in gfile.listdir(name) if "tfrecord" in file.lower()]
        else:
            files = matching(name)
        if not files:
            raise FileNotFoundError(
                f"No examples were found at {name}. Name a directory of examples, or TFRecord files. Received: {name}"
            )
        found += sorted(files)
    return found


def count_records(path: str, examples: int | None, size: int | None, damaged: str) -> int:
    """The number of readable records in a file. Damage is an error, unless `damaged` is "skip".

    examples, size: the records and bytes that were written; None where that is not known.
    """
    if damaged == "skip":
        count, reason = _count_readable(path)
    elif examples is not None and size is not None:
        count, found = examples, size_of(path) if exists(path) else 0
        reason = None if found == size else f"{found} bytes of {size}"
    else:
        count, reason = _count_headers(path)
    if reason is not None:
        if damaged == "stop":
            raise ValueError(_damage(path, reason))
        logger.warning("%s is damaged (%s); only its first %d records are used.", path, reason, count)
    return count


def read_records(files: Sequence[tuple[str, int]]) -> Any:
    """The first records of each file, as many as given with its path, in one array of bytes."""
    parts = []
    for path, count in files:
        try:
            part = next(iter(tf.data.TFRecordDataset(path, buffer_size=1 << 20).take(count).batch(count)), None)
        except tf.errors.OpError as error:
            raise ValueError(_damage(path, error.message)) from None
        found = 0 if part is None else len(part)
        if part is None or found != count:
            raise ValueError(_damage(path, f"{found} records of {count}"))
        parts.append(part.numpy())
    return np.concatenate(parts)


def _damage(path: str, reason: str) -> str:
    return (
        f"The examples in {path} are damaged or incomplete. Write them again, or use only what can be read with "
        f"damaged='skip' (--damaged skip). Received: {reason}"
    )


def _count_readable(path: str) -> tuple[int, str | None]:
    """Counts by reading all records, with their checksums."""
    count = 0
    try:
        for _ in tf.data.TFRecordDataset(path, buffer_size=1 << 20).map(tf.strings.length):
            count += 1
    except tf.errors.OpError as error:
        return count, error.message
    return count, None


def _count_headers(path: str) -> tuple[int, str | None]:
    """Counts by jumping from header to header."""
    length = size_of(path)
    count = place = 0
    with open_file(path, "rb") as file:
        while place < length:
            file.seek(place)
            header = file.read(_HEADER.size)
            if len(header) == _HEADER.size:
                place += _HEADER.size + _HEADER.unpack(header)[0] + _FOOTER_SIZE
            if len(header) < _HEADER.size or place > length:
                return count, f"cut off within record {count}"
            count += 1
    return count, None
