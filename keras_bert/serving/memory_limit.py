"""A ceiling for the server's memory: above it, new requests are refused until enough is free again."""

import ctypes
import logging
import os
import re
import time
from pathlib import Path

logger = logging.getLogger("uvicorn.error")  # uvicorn's own, which it prints
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


class MemoryLimit:
    """Compares the resident memory of this process with a limit in bytes.

    >>> MemoryLimit(2**40).is_exceeded()
    False
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._exceeded = False
        self._trimmed = 0.0
        if (used := resident()) >= limit:
            raise ValueError(
                f"The server uses {used >> 20} MiB before its first request, more than its memory limit. Raise "
                f"--memory-limit. Received: {limit >> 20} MiB"
            )

    def is_exceeded(self) -> bool:
        exceeded = resident() > self.limit
        if exceeded and time.monotonic() > self._trimmed + 1:  # what was freed may not have been given back yet
            _give_back()
            self._trimmed = time.monotonic()
            exceeded = resident() > self.limit
        if exceeded != self._exceeded:
            self._exceeded = exceeded
            said = "exceeds its limit: new requests get a 503" if exceeded else "is below its limit again"
            logger.warning("The memory of the server %s (%d of %d MiB).", said, resident() >> 20, self.limit >> 20)
        return exceeded


def resident() -> int:
    """The bytes of memory that this process uses."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        raise RuntimeError("--memory-limit reads /proc, which only Linux has. Leave the option out.") from None


def read_size(text: str) -> int:
    """A number of bytes, written with or without a unit.

    >>> read_size("2g"), read_size("512M"), read_size("1.5GiB")
    (2147483648, 536870912, 1610612736)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?", text.strip().lower())
    if found is None or not float(found[1]):
        raise ValueError(f"--memory-limit must be a size such as 512m or 4g. Received: {text!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def _give_back() -> None:
    """Return freed memory to the system, where the C library has a function for it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
