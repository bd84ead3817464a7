"""Which spans of pieces make the segments of an example, by the algorithm of google-research/bert.

The sentences of a shard follow one another in one flat array of piece ids. A segment is a run of sentences and thus a
span of that array, so the algorithm only looks at the lengths of sentences.
"""

import random
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

SPANS = 5  # a_begin, a_end, b_begin, b_end, label
LONG = 8  # times the room: a segment that is longer is cut to this length at once


def pair_spans(
    documents: Sequence[Sequence[int]], *, room: int, short_seq_prob: float, chance: random.Random
) -> np.ndarray:
    """The examples of a shard, in its order: int64 [N, 5] of a_begin, a_end, b_begin, b_end and the label.

    The label is 0 if the second segment follows the first, 1 if it comes from another document. A document of one
    sentence has no next segment, and a single document has no random one.

    documents: the lengths of each document's sentences, in pieces.
    room: how many pieces the two segments may have together.
    short_seq_prob: the share of the documents whose examples are cut to a random shorter length.

    >>> pair_spans([[4, 5]], room=30, short_seq_prob=0, chance=random.Random(0))
    array([[0, 4, 4, 9, 0]])
    """
    bounds = []  # for each document: the first piece of each sentence, and the end of the last
    begin = 0
    for lengths in documents:
        bounds.append(list(accumulate(lengths, initial=begin)))
        begin = bounds[-1][-1]
    found: list[tuple[int, int, int, int, int]] = []
    for number, document in enumerate(bounds):
        target = chance.randint(2, room) if chance.random() < short_seq_prob else room
        first, last = 0, len(document) - 1  # sentences
        while first < last:
            end = _end(document, first, target)
            # Sentences first..end-1 are the chunk; at least one of them makes the first segment.
            middle = first + chance.randint(1, end - first - 1) if end - first > 1 else end
            a_begin, a_end = document[first], document[middle]
            if len(bounds) > 1 and (middle == end or chance.random() < 0.5):
                b_begin, b_end = _elsewhere(bounds, number, target - (a_end - a_begin), chance)
                label = 1
                first = middle  # the rest of the chunk is used again
            elif middle < end:
                b_begin, b_end, label = document[middle], document[end], 0
                first = end
            else:  # a chunk of one sentence, and there is no other document
                first = end
                continue
            found.append((*_truncate(a_begin, a_end, b_begin, b_end, room, chance), label))
    return np.array(found, np.int64).reshape(-1, SPANS)


def _elsewhere(bounds: list[list[int]], number: int, wanted: int, chance: random.Random) -> tuple[int, int]:
    """Sentences of another document, starting at a random one, until they have enough pieces."""
    other = chance.randrange(len(bounds) - 1)
    document = bounds[other + (other >= number)]
    begin = chance.randrange(len(document) - 1)
    return document[begin], document[_end(document, begin, wanted)]


def _end(document: list[int], first: int, wanted: int) -> int:
    """The sentence at which to stop, so that those from `first` on have enough pieces, if the document has so many."""
    end = first + 1
    while end < len(document) - 1 and document[end] - document[first] < wanted:
        end += 1
    return end


def _truncate(a: int, a_end: int, b: int, b_end: int, room: int, chance: random.Random) -> tuple[int, int, int, int]:
    """Remove pieces from the longer segment, at random from its front or its back, until both fit."""
    a, a_end = _cut(a, a_end, LONG * room, chance)
    b, b_end = _cut(b, b_end, LONG * room, chance)
    while a_end - a + b_end - b > room:
        if a_end - a > b_end - b:
            if chance.random() < 0.5:
                a += 1
            else:
                a_end -= 1
        elif chance.random() < 0.5:
            b += 1
        else:
            b_end -= 1
    return a, a_end, b, b_end


def _cut(begin: int, end: int, most: int, chance: random.Random) -> tuple[int, int]:
    """Shorten a segment to `most` pieces. A random bit for each removed piece decides between its front and its end."""
    if (rest := end - begin - most) <= 0:
        return begin, end
    front = chance.getrandbits(rest).bit_count()
    return begin + front, end - (rest - front)


def full_spans(documents: Sequence[Sequence[int]], *, room: int) -> list[list[tuple[int, int]]]:
    """Rows for masked words only, filled with full sentences; the end of a document within a row is a [SEP].

    A sentence longer than `room` fills rows of its own, and the next row starts with what is left of it.

    >>> full_spans([[4, 4], [3]], room=12)
    [[(0, 8), (8, 11)]]
    """
    rows: list[list[tuple[int, int]]] = []
    row: list[tuple[int, int]] = []
    left, begin = room, 0
    for lengths in documents:
        open_span = False  # whether the last span of the row is in this document
        for length in lengths:
            while length:
                separator = int(bool(row) and not open_span)  # the [SEP] of the document before
                if row and length + separator > left:
                    rows.append(row)
                    row, left, open_span = [], room, False
                    continue
                taken = min(length, left)
                if open_span:
                    row[-1] = (row[-1][0], begin + taken)
                else:
                    row.append((begin, begin + taken))
                    open_span = True
                left -= taken + separator
                begin += taken
                length -= taken
    if row:
        rows.append(row)
    return rows
