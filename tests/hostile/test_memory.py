"""Memory is linear in the bytes of the worst texts that can be found, at 64 kB, 256 kB and 1 MB."""

import ctypes
import random
import sys

import pytest

from tests.hostile.inputs import SPECIAL, large
from tests.hostile.profile import FACTOR
from tests.subprocesses import fork

if not sys.platform.startswith("linux"):
    pytest.skip("the peak is read from /proc", allow_module_level=True)

SIZES = (64_000, 256_000, 1_000_000)  # bytes
LIMIT = 200  # bytes of memory for each


def status(name):
    """A figure of this process in bytes."""
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def peak(call, texts, size):
    """The bytes of memory that a call needs for each byte of its texts."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets the peak
    before = status("VmRSS")
    call(texts)
    return (status("VmHWM") - before) / size


def drawn(draw):
    """A random batch as a pattern, with the number of its short rows."""

    def unit():
        return "".join(
            draw.choice((draw.choice("ab!中각#  "), draw.choice(SPECIAL))) for _ in range(draw.randint(1, 3))
        )

    batch = [[(unit(), draw.randint(1, 4)) for _ in range(draw.randint(1, 3))] for _ in range(draw.randint(1, 3))]
    return batch, draw.choice((1, 1, 16, 256))


def varied(pattern, draw):
    """A pattern that differs from a good one in a place: a simple climb finds worse and worse texts."""
    batch, rows = pattern
    other, more = drawn(draw)
    number = draw.randrange(len(batch))
    return [*batch[:number], draw.choice((other[0], batch[number] + other[0][:1])), *batch[number + 1 :]][
        :4
    ], draw.choice((rows, more))


def search(call, rounds, seed):
    """The pattern that needs the most memory at the smallest size, among random ones and variations of the worst."""
    draw = random.Random(seed)
    size = SIZES[0]
    worst, most = None, 0.0
    for number in range(rounds):
        pattern = drawn(draw) if worst is None or number % 2 else varied(worst, draw)
        found = peak(call, large(*pattern[:1], size, pattern[1]), size)
        if found > most:
            worst, most = pattern, found
    return worst


def of_worst(rounds, seed):
    """For each function of the tokenizer: the worst pattern, and its bytes of memory for each byte at three sizes."""
    from tests.hostile.test_text import tokenizer

    found = {}
    ours = tokenizer(True, True, True)
    for call in (ours.tokenize, ours.tokenize_with_offsets):
        call(["a b", "\u302e\u0301"])
        batch, rows = search(call, rounds, seed)
        found[call.__name__] = (batch, rows), [peak(call, large(batch, size, rows), size) for size in SIZES]
    return found


@pytest.mark.long
def test_the_worst_texts_need_linear_memory():
    for name, (pattern, memory) in fork(
        of_worst, 60 * max(1, FACTOR), random.randrange(2**32) if FACTOR else 0
    ).items():
        assert max(memory) <= LIMIT, f"{name} of {pattern}: {memory} bytes a byte at {SIZES}"
