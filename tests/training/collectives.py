"""What devices send each other, by the text of a compiled program of JAX."""

import math
import re


def collectives(compiled: str) -> list[tuple[str, int]]:
    """The dtype and the number of elements of every array that devices sum or gather."""
    kinds = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    results = re.findall(rf"= (.*?) (?:{kinds})(?:-start)?\(", compiled)
    arrays = [array for result in results for array in re.findall(r"([a-z]+\d+|pred)\[([\d,]*)\]", result)]
    return [(dtype, math.prod(map(int, filter(None, shape.split(","))))) for dtype, shape in arrays]
