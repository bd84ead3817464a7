"""The packing rules of google-research/bert, told in plain Python: pairs, and the windows of run_squad."""


def truncate_pair(a: list, b: list, room: int) -> None:
    """Take the last piece of the longer list until both fit; in a tie the second loses one."""
    while len(a) + len(b) > room:
        longer = a if len(a) > len(b) else b
        longer.pop()


def pack_pair(a: list, b: list, seq_length: int, cls: int, sep: int, pad: int) -> tuple[list, list, list]:
    a, b = list(a), list(b)
    truncate_pair(a, b, seq_length - 3)
    ids = [cls, *a, sep, *b, sep]
    types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    padding = seq_length - len(ids)
    return ids + [pad] * padding, [1] * len(ids) + [0] * padding, types + [0] * padding


def round_robin(lengths: list[int], room: int) -> list[int]:
    """Deal out the room piece by piece, in turn, to those who have a piece left."""
    kept = [0] * len(lengths)
    while sum(kept) < min(room, sum(lengths)):
        for k, length in enumerate(lengths):
            if kept[k] < length and sum(kept) < room:
                kept[k] += 1
    return kept


def document_spans(pieces: int, room: int, stride: int) -> list[tuple[int, int]]:
    """(start, length) of each window of a context."""
    spans, start = [], 0
    while start < pieces:
        length = min(pieces - start, room)
        spans.append((start, length))
        if start + length == pieces:
            break
        start += min(length, stride)
    return spans


def has_most_context(spans: list[tuple[int, int]], window: int, piece: int) -> bool:
    """Whether this window is the one that gives the piece the most context on its poorer side."""
    best_score, best_window = None, None
    for number, (start, length) in enumerate(spans):
        last = start + length - 1
        if not start <= piece <= last:
            continue
        score = min(piece - start, last - piece) + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best_window = score, number
    return window == best_window
