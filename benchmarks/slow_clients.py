"""Clients that send slowly, stop in the middle, read nothing or leave, for benchmarks/serving_soak.py."""

import contextlib
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

_SECONDS = 90.0  # the server closes a connection whose request takes a minute
_TEXT = "w1 w2"


class SlowClients:
    """Keeps this many slow clients connected until the block ends. `wrong` has the answers that they should not get.

    A request that arrives within the server's minute is answered; one that does not gets a 408, or nothing if nothing
    was sent.
    """

    def __init__(self, port: int, model: str, count: int) -> None:
        self.kinds: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.server_is_ending = False  # from then on, any answer is right
        self._port = port
        self._body = json.dumps({"instances": [_TEXT]}).encode()
        self._head = (
            f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
            f"Content-Length: {len(self._body)}\r\n\r\n"
        ).encode()
        self._stopped = threading.Event()
        ways = (self._silent, self._half_head, self._half_body, self._drop_by_drop, self._leaves, self._reads_late)
        self._threads = [threading.Thread(target=self._run, args=(number, ways)) for number in range(count)]

    def __enter__(self) -> "SlowClients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int, ways: tuple[Callable[[socket.socket], str | None], ...]) -> None:
        rng = random.Random(number)
        while not self._stopped.is_set():
            way = ways[number % len(ways)] if number < len(ways) else rng.choice(ways)
            number += len(ways)  # the first round has one of each
            try:
                with socket.create_connection(("127.0.0.1", self._port), _SECONDS) as client:
                    client.settimeout(1)
                    fault = way(client)
            except OSError as error:
                fault = f"{type(error).__name__}: {error}"
                if self.server_is_ending:
                    return
            name = way.__name__.strip("_").replace("_", " ")
            self.kinds[name] += 1
            if fault and not self.server_is_ending:
                self.wrong.append(f"{name}: {fault}")

    # === Ways to be slow: each returns what was wrong ===

    def _silent(self, client: socket.socket) -> str | None:
        return self._expect(client, "", "408")

    def _half_head(self, client: socket.socket) -> str | None:
        client.sendall(self._head[:30])
        return self._expect(client, "", "408")

    def _half_body(self, client: socket.socket) -> str | None:
        client.sendall(self._head + self._body[:5])
        return self._expect(client, "", "408")

    def _drop_by_drop(self, client: socket.socket) -> str | None:
        begin = time.monotonic()
        for byte in self._head + self._body:
            client.sendall(bytes([byte]))
            self._stopped.wait(0.05)
            if time.monotonic() > begin + 50:  # on a busy machine it would not arrive within the minute
                return None
        return self._expect(client, "200")

    def _leaves(self, client: socket.socket) -> str | None:
        client.sendall(self._head + self._body[: random.randrange(len(self._body))])
        self._stopped.wait(0.5)
        return None

    def _reads_late(self, client: socket.socket) -> str | None:
        client.sendall(self._head + self._body)
        self._stopped.wait(5)
        return self._expect(client, "200", "503")

    def _expect(self, client: socket.socket, *statuses: str) -> str | None:
        """Read until the server closes the connection, or until the end of the block."""
        said = b""
        while True:
            with contextlib.suppress(TimeoutError):
                part = client.recv(1 << 16)
                if not part:
                    break
                said += part
            if self._stopped.is_set():
                return None
        status = said.split(b" ")[1].decode() if said else ""
        return None if status in statuses else f"expected {statuses}, received {said[:200]!r}"
