"""TFRecord files: finding them, counting their records, and noticing damage."""

import logging
import os
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from keras_bert.lazy import tf
from keras_bert.pretraining.examples.example_order import GROUP_SIZE
from keras_bert.pretraining.examples.record_checksums import masked_crc32c
from keras_bert.progress import reported_if_slow
from keras_bert.storage import errors_about, exists, matching, names_in, open_file, read_bytes, size_of

logger = logging.getLogger("keras_bert")

_HEADER = struct.Struct("<QI")  # the length of the record that follows, and its checksum
_LENGTH = struct.Struct("<Q")
_FOOTER_SIZE = 4  # the record's own checksum
SECONDS_UNTIL_REPORTED = 10  # that the reading of a file takes


@dataclass(frozen=True)
class RecordRange:
    """So many records in a row, and the bytes of the file that hold them; a size of -1 means up to its end."""

    path: str
    count: int
    begin: int = 0
    size: int = -1


def find_records(source: str | os.PathLike | Iterable[str | os.PathLike]) -> list[str]:
    """The files that paths, patterns and folders name; in a folder, those with "tfrecord" in their names."""
    found: list[str] = []
    for path in [source] if isinstance(source, str | os.PathLike) else source:
        name = os.fspath(path)
        if tf.io.gfile.isdir(name):
            files = [os.path.join(name, file) for file in names_in(name) if "tfrecord" in file.lower()]
        else:
            files = matching(name)
        if not files:
            raise FileNotFoundError(
                f"No examples were found at {name}. Name a directory of examples, or TFRecord files. Received: {name}"
            )
        found += sorted(files)
    return found


def readable_ranges(path: str, examples: int | None, size: int | None, damaged: str) -> list[RecordRange]:
    """The readable records of a file. Damage is an error, unless `damaged` is "skip".

    Records that other code wrote are split into ranges of `GROUP_SIZE`, since all of them may be in one large file.

    examples, size: the records and bytes that were written; None where that is not known.
    """
    if examples is not None and size is not None:
        begins, count, found = [0], examples, size_of(path) if exists(path) else 0
        reason = None if found == size else f"{found} bytes of {size}"
    else:
        begins, count, reason = _find_headers(path)
    if damaged == "skip":
        count, reason = _count_readable(path)
        if reason is None and examples is not None and count < examples:
            reason = f"{count} examples of {examples}"
    if reason is not None:
        if damaged == "stop":
            raise _damage(path, reason)
        logger.warning("%s is damaged (%s); only its first %d records are used.", path, reason, count)
    if examples is not None:
        return [RecordRange(path, count)] if count else []
    ends = pairwise([*begins, size_of(path)])
    return [
        RecordRange(path, min(GROUP_SIZE, count - first), begin, end - begin)
        for first, (begin, end) in zip(range(0, count, GROUP_SIZE), ends, strict=False)
    ]


def read_records(ranges: Sequence[RecordRange], chosen: np.ndarray) -> np.ndarray:
    """The chosen records in their order, as an array of bytes. Only their checksums are verified.

    ranges: those without a chosen record are not read.
    chosen: indices of records, counted through these ranges.
    """
    order = np.argsort(chosen, kind="stable")
    records = np.empty(len(order), object)
    begin = 0
    for one in ranges:
        first, last = np.searchsorted(chosen, (begin, begin + one.count), sorter=order)
        if first < last:
            records[order[first:last]] = _read_from(one, chosen[order[first:last]] - begin)
        begin += one.count
    return records


def _read_from(records: RecordRange, chosen: np.ndarray) -> np.ndarray:
    """The chosen records of a range, in this order."""
    path = records.path

    def slow(seconds: float) -> str:
        return f"{path} could not be read for {seconds:.0f} seconds. Check its disk, network or bucket. Still trying."

    try:
        with reported_if_slow(slow, SECONDS_UNTIL_REPORTED):
            content = read_bytes(path, records.begin, records.size)
    except OSError as error:
        raise OSError(
            f"The examples in {path} could not be read. Check its disk, network or bucket. Received: {error}"
        ) from None
    begins = np.array(_begins(path, content, records.count))
    headers, starts, ends = begins[chosen], begins[chosen] + _HEADER.size, begins[chosen + 1] - _FOOTER_SIZE
    data = np.frombuffer(content, np.uint8)
    for places, lengths in ((headers, np.full_like(headers, _LENGTH.size)), (starts, ends - starts)):
        stored = data[(places + lengths)[:, np.newaxis] + np.arange(_FOOTER_SIZE)]  # [N, 4]
        if (stored.view("<u4")[:, 0] != masked_crc32c(data, places, lengths)).any():
            raise _damage(path, "a record whose checksum is wrong")
    return np.array([content[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)], object)


def _begins(path: str, content: bytes, count: int) -> list[int]:
    """Where the first `count` records in a file's content begin, and where the last of them ends."""
    begins, place = [0], 0
    read_length, around = _LENGTH.unpack_from, _HEADER.size + _FOOTER_SIZE
    with suppress(struct.error, OverflowError):  # a header beyond the end
        for _ in range(count):
            place += read_length(content, place)[0] + around
            begins.append(place)
    if len(begins) <= count or place > len(content):
        raise _damage(path, "the file is cut off")
    return begins


def _damage(path: str, reason: str) -> ValueError:
    return ValueError(
        f"The examples in {path} are damaged or incomplete. Write them again, or pass damaged='skip' "
        f"(--damaged skip) to leave out what cannot be read. Received: {reason}"
    )


def _count_readable(path: str) -> tuple[int, str | None]:
    """Counts by reading all records, with their checksums."""
    count = 0
    with errors_about("read", path):
        try:
            for _ in tf.data.TFRecordDataset(path, buffer_size=1 << 20).map(tf.strings.length):
                count += 1
        except (tf.errors.DataLossError, tf.errors.NotFoundError) as error:
            return count, error.message
    return count, None


def _find_headers(path: str) -> tuple[list[int], int, str | None]:
    """Jumps from header to header: where each group of records begins, the number of records, and what is damaged."""
    length = size_of(path)
    begins, count, place = [], 0, 0
    with open_file(path, "rb") as file:
        while place < length:
            if count % GROUP_SIZE == 0:
                begins.append(place)
            file.seek(place)
            header = file.read(_HEADER.size)
            if len(header) == _HEADER.size:
                place += _HEADER.size + _HEADER.unpack(header)[0] + _FOOTER_SIZE
            if len(header) < _HEADER.size or place > length:
                return begins, count, f"the file is cut off within record {count}"
            count += 1
    return begins, count, None
