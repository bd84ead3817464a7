"""The addresses of the other processes of a run on JAX. Each process listens at its address as long as it runs."""

import os
import socket
import threading

import numpy as np

from keras_bert.training.watcher import answers

ADDRESS = 256  # bytes
_known: dict[tuple[str, int], str] = {}


def other_processes() -> dict[tuple[str, int], str]:
    """The addresses of the processes that `meet` found, but this one."""
    return _known


def meet() -> None:
    """Exchange addresses with all processes, each of which calls this. Those that a firewall hides are left out."""
    import jax
    from jax.experimental.multihost_utils import process_allgather

    family, address = listening_address()
    server = socket.create_server((address, 0), family=family)
    threading.Thread(target=_answer, args=(server,), daemon=True).start()
    own = f"{address or socket.gethostname()}:{server.getsockname()[1]}".encode()
    found = process_allgather(np.frombuffer(own.ljust(ADDRESS), "uint8"))  # [processes, ADDRESS]
    for index, row in enumerate(found):
        other = bytes(row).decode().strip()
        if index != jax.process_index() and answers(other):
            _known["process", index] = other


def _answer(server: socket.socket) -> None:
    while True:
        server.accept()[0].close()


def listening_address() -> tuple[int, str]:
    """The address of this machine in the network of the first process; "", which is all networks, if none is known."""
    host, _, port = os.environ.get("KERAS_DISTRIBUTION_JOB_ADDRESSES", "").split(",")[0].rpartition(":")
    if not host:
        return socket.AF_INET, ""
    family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as route:
        route.connect(address)  # sends nothing
        return family, route.getsockname()[0]
