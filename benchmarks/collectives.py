"""What devices send each other, by the text of a compiled program of XLA."""

import math
import re

BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "f64": 8}


def collectives(compiled: str) -> list[tuple[str, str, int]]:
    """The kind, the dtype and the number of elements of every array that devices sum or gather."""
    kinds = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    found = []
    for result, kind in re.findall(rf"= (.*?) ({kinds})(?:-start)?\(", compiled):
        for dtype, shape in re.findall(r"([a-z]+\d+|pred)\[([\d,]*)\]", result):
            found.append((kind, dtype, math.prod(map(int, filter(None, shape.split(","))))))
    return found


def bytes_by_kind(compiled: str) -> dict[str, int]:
    """How many bytes of results each kind of operation has."""
    sent: dict[str, int] = {}
    for kind, dtype, size in collectives(compiled):
        sent[kind] = sent.get(kind, 0) + BYTES[dtype] * size
    return sent
