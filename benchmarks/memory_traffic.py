"""How many bytes a step moves to and from a TPU's memory, by the text of its compiled program.

The compiler's own "bytes accessed" also counts arrays that stay in the chip's small fast memory, marked S(1), and so
several times too much.
"""

import math
import re

from collectives import BYTES

ARRAY = re.compile(r"(pred|[a-z]+\d+)\[([\d,]*)\](\{[^}]*\})?")
LINE = re.compile(r"^ +(?:ROOT )?%(\S+) = (.*?) ([a-z][a-z-]*)\((.*?)\)")
NO_WORK = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call")


def memory_traffic(compiled: str) -> int:
    """The bytes that all operations read and write, of the arrays outside of the fast memory; a loop counts once.

    An operation that reads a part of an array, such as a lookup in a table, counts as if it read all of it.
    """
    inside = set(re.findall(r"(?:calls|to_apply)=%([^\s,)}]+)", compiled))  # of one operation, with its own memory
    total, sizes, skipped = 0, dict[str, int](), False
    for text in compiled.splitlines():
        if text.endswith("{") and (header := re.match(r"(?:ENTRY )?%(\S+) ", text)):
            skipped = header[1] in inside
        elif not skipped and (line := LINE.match(text)):
            name, result, kind, operands = line.groups()
            arrays = [_size(*array) for array in ARRAY.findall(result)]
            sizes[name] = sum(arrays)
            if kind == "copy-start":  # from one memory to the other, or within the large one
                total += sum(arrays)
            elif kind.endswith("-start"):  # its operand is in the result too, as a whole
                total += max((_size(*array[:2], "") for array in ARRAY.findall(result)[1:]), default=0)
            elif kind not in NO_WORK and not kind.endswith("-done"):
                total += sizes[name] + sum(sizes.get(operand, 0) for operand in re.findall(r"%([^\s,]+)", operands))
    return total


def _size(dtype: str, shape: str, layout: str) -> int:
    """The bytes of an array in the large memory."""
    return 0 if "S(" in layout else BYTES.get(dtype, 4) * math.prod(map(int, filter(None, shape.split(","))))
