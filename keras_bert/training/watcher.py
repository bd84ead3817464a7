"""Finds the workers that do not answer. Run as a program, it logs their names until the process that started it ends.

That process cannot do this in a thread: TensorFlow holds Python's lock while it waits for other workers. The program
notices the end of its parent by its standard input, which is then closed.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

SECONDS_TO_ANSWER = 2


def answers(address: str) -> bool:
    """Whether somebody listens at an address; a worker does as long as its process runs. Nobody does without a port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
    except (OSError, ValueError, OverflowError):  # the last two: not an address with a port
        return False
    return True


def silent(addresses: dict[str, str]) -> list[str]:
    """The names of the workers that do not answer, of those with these addresses. All are asked at the same time."""
    with ThreadPoolExecutor(max_workers=64) as pool:
        found = pool.map(answers, addresses.values())
        return [name for name, answer in zip(addresses, found, strict=True) if not answer]


def waiting_for(names: list[str], seconds: float, remedy: str) -> str:
    """A line for the log.

    >>> waiting_for(["worker 1 (b:2222)"], 10.2, "Start it again.")
    'Waiting for worker 1 (b:2222), for 10 seconds. Start it again.'
    """
    who = ", ".join(names) or "the other workers, which may belong to a run that is ending"
    return f"Waiting for {who}, for {seconds:.0f} seconds. {remedy}"


def main(addresses: dict[str, str], every: float, remedy: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to the parent too
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begin = time.monotonic()
    while True:
        time.sleep(every)
        names = silent(addresses)
        sys.stderr.write(waiting_for(names, time.monotonic() - begin, remedy) + "\n")
        sys.stderr.flush()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
