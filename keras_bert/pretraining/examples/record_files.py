"""TFRecord files: finding them, counting their records, and noticing damage."""

import logging
import os
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np

from keras_bert.lazy import tf
from keras_bert.pretraining.examples.record_checksums import masked_crc32c
from keras_bert.progress import reported_if_slow
from keras_bert.storage import exists, matching, open_file, read_bytes, size_of

logger = logging.getLogger(__name__)

_HEADER = struct.Struct("<QI")  # the length of the record that follows, and its checksum
_LENGTH = struct.Struct("<Q")
_FOOTER_SIZE = 4  # the record's own checksum
SECONDS_UNTIL_REPORTED = 10  # that the reading of a file takes


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


def read_records(files: Sequence[tuple[str, int]], chosen: np.ndarray) -> np.ndarray:
    """The chosen records in their order, as an array of bytes. Only their checksums are verified.

    files: paths, each with the number of its records, counted from the first. Those without a chosen one stay closed.
    chosen: indices of records, counted through these files.
    """
    order = np.argsort(chosen, kind="stable")
    framed: list[bytes] = []
    begin = 0
    for path, count in files:
        first, last = np.searchsorted(chosen, (begin, begin + count), sorter=order)
        if first < last:
            framed += _read_from(path, count, chosen[order[first:last]] - begin)
        begin += count
    wrong = _first_wrong(framed)
    if wrong is not None:
        owner = np.searchsorted(np.cumsum([count for _, count in files]), chosen[order[wrong]], "right")
        raise ValueError(_damage(files[owner][0], "a record whose checksum is wrong"))
    records = np.empty(len(order), object)
    records[order] = np.array([frame[_HEADER.size : -_FOOTER_SIZE] for frame in framed], dtype=object)
    return records


def _read_from(path: str, count: int, chosen: np.ndarray) -> list[bytes]:
    """The chosen ones of the first `count` records of a file, each with its header and its footer."""

    def slow(seconds: float) -> str:
        return f"{path} could not be read for {seconds:.0f} seconds. Check its disk, network or bucket. Still trying."

    try:
        with reported_if_slow(slow, SECONDS_UNTIL_REPORTED):
            content = read_bytes(path)
    except OSError as error:
        raise OSError(
            f"The examples in {path} could not be read. Check its disk, network or bucket. Received: {error}"
        ) from None
    begins = _begins(path, content, count)
    return [content[begins[number] : begins[number + 1]] for number in chosen.tolist()]


def _first_wrong(framed: list[bytes]) -> int | None:
    """The index of the first record whose header or data do not match their checksums."""
    content = np.frombuffer(b"".join(framed), np.uint8)
    sizes = np.array([len(frame) for frame in framed])
    starts = np.cumsum(sizes) - sizes
    for skipped, lengths in (
        (0, np.full_like(sizes, _LENGTH.size)),
        (_HEADER.size, sizes - _HEADER.size - _FOOTER_SIZE),
    ):
        begins = starts + skipped
        stored = content[(begins + lengths)[:, np.newaxis] + np.arange(_FOOTER_SIZE)]  # [N, 4]
        wrong = np.flatnonzero(stored.view("<u4")[:, 0] != masked_crc32c(content, begins, lengths))
        if len(wrong):
            return int(wrong[0])
    return None


def _begins(path: str, content: bytes, count: int) -> list[int]:
    """Where the first `count` records of a file begin, and where the last of them ends."""
    begins, place = [0], 0
    read_length, around = _LENGTH.unpack_from, _HEADER.size + _FOOTER_SIZE
    with suppress(struct.error, OverflowError):  # a header beyond the end
        for _ in range(count):
            place += read_length(content, place)[0] + around
            begins.append(place)
    if len(begins) <= count or place > len(content):
        raise ValueError(_damage(path, f"the file is cut off within record {min(len(begins), count) - 1}"))
    return begins


def _damage(path: str, reason: str) -> str:
    return (
        f"The examples in {path} are damaged or incomplete. Write them again, or pass damaged='skip' "
        f"(--damaged skip) to leave out what cannot be read. Received: {reason}"
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
                return count, f"the file is cut off within record {count}"
            count += 1
    return count, None
