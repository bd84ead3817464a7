"""TFRecord files: which there are, how many records each has, and whether it is whole."""

import logging
import os
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from keras_bert.storage import is_remote, matching

logger = logging.getLogger(__name__)

_HEADER = struct.Struct("<QI")  # length and its checksum, before each record; a checksum of four bytes behind it


def find_records(source: str | os.PathLike | Iterable[str | os.PathLike]) -> list[str]:
    """Files that paths, patterns and folders name; of a folder those whose names tell of TFRecords."""
    import tensorflow as tf

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
                f"Records are read from a directory of examples, or from TFRecord files. Received: {name}, which names "
                "none"
            )
        found += sorted(files)
    return found


def count_whole(path: str, examples: int | None, size: int | None, damaged: str) -> int:
    """How many records of a file can be read: all there should be, unless damage is to be skipped.

    examples, size: what it had when it was written; where that is not known its headers are counted.
    """
    if damaged == "skip":
        count, reason = _count_readable(path)
    elif examples is not None and size is not None:
        count, reason = examples, _size_differs(path, size)
    else:
        count, reason = _count_headers(path)
    if reason is None:
        return count
    if damaged == "stop":
        raise ValueError(_damage(path, reason))
    logger.warning("%s is damaged (%s); its first %d records are used.", path, reason, count)
    return count


def first_record(path: str) -> bytes:
    """The first record of a file that has one."""
    import tensorflow as tf

    return next(iter(tf.data.TFRecordDataset(path))).numpy()


def records_of(files: Sequence[tuple[str, int]]) -> Any:
    """The first records of each file, as many as said, in a row: an array of bytes."""
    import numpy as np
    import tensorflow as tf

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
        "A file of examples must be whole. Write it again, or go on without what is damaged: damaged='skip', "
        f"--damaged skip. Received: {path} ({reason})"
    )


def _size_differs(path: str, size: int) -> str | None:
    import tensorflow as tf

    try:
        found = tf.io.gfile.stat(path).length
    except tf.errors.OpError:
        return "it is not there"
    return None if found == size else f"{found} bytes of {size}"


def _count_readable(path: str) -> tuple[int, str | None]:
    """Reads all records, with their checksums."""
    import tensorflow as tf

    count = 0
    try:
        for batch in tf.data.TFRecordDataset(path, buffer_size=1 << 20).map(tf.strings.length):
            count += 1
            del batch
    except tf.errors.OpError as error:
        return count, error.message
    return count, None


def _count_headers(path: str) -> tuple[int, str | None]:
    """Goes from header to header."""
    import tensorflow as tf

    length = tf.io.gfile.stat(path).length
    count = place = 0
    with tf.io.gfile.GFile(path, "rb") if is_remote(path) else open(path, "rb") as file:
        while place < length:
            file.seek(place)
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return count, f"cut off within record {count}"
            place += _HEADER.size + _HEADER.unpack(header)[0] + 4
            if place > length:
                return count, f"cut off within record {count}"
            count += 1
    return count, None
