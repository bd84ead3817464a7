"""Compare requests over REST: `keras-bert serve` of a classifier with a server that has ONNX Runtime inside.

    python benchmarks/rest.py                                       about 10 minutes on 2 cores
    python benchmarks/rest.py --sizes minilm --rounds 3 --seconds 2

All servers have the same weights: MiniLM's, or random ones of base, and a random head. "plain ORT" is a server on the
same web framework, as onnx_peers.py has it: HuggingFace's tokenizer, and a padded call for each request in a pool of
threads. Servers run in turn. Each client sends a text of SST-2 as soon as its last one is answered. A rate is the
median of the rounds, and so is a ratio of two rates; the latency is the median of all requests. MB is the resident
memory after that.
"""

import argparse
import contextlib
import itertools
import os
import statistics
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import onnx_peers
from running_server import Server, export_server, resident, served
from serving import CLIENTS, loaded

OURS = {  # the export, and the options of `serve`
    "ours, ORT int8": ("float32", "--engine", "onnxruntime", "--dtype", "int8"),
    "ours, ORT float32": ("float32", "--engine", "onnxruntime"),
    "ours, TF int8": ("int8",),
    "ours, TF float32": ("float32",),
}
PEERS = {"plain ORT int8": ".int8", "plain ORT float32": ""}


class Asked:
    """A server, and the requests that it answered in each round, by the number of clients."""

    def __init__(self, name: str, server: Server) -> None:
        self.name = name
        self.server = server
        self.rates: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
        self.latencies: dict[int, list[float]] = {clients: [] for clients in CLIENTS}

    def ask(self, clients: int, seconds: float) -> None:
        times = loaded(self.server.port, clients, seconds)
        self.rates[clients].append(clients * len(times) / sum(times))  # all clients ask all the time
        self.latencies[clients] += times

    def against(self, other: "Asked", clients: int) -> float:
        return statistics.median(a / b for a, b in zip(self.rates[clients], other.rates[clients], strict=True))

    def __str__(self) -> str:
        cells = [
            f"{statistics.median(self.rates[clients]):9.1f} {1e3 * statistics.median(self.latencies[clients]):8.1f} ms"
            for clients in CLIENTS
        ]
        return f"  {self.name:20}{''.join(cells)}{resident(self.server.process.pid):8.0f}"


def write(size: str, folder: str) -> None:
    """The files that the servers load."""
    import keras_bert

    onnx_peers.write_classifier(size, folder)
    task = keras_bert.TextClassifier.load(folder, seq_length=onnx_peers.LONGEST)
    keras_bert.export(task, f"{folder}/float32/base")
    keras_bert.export(task, f"{folder}/int8/base", dtype="int8")


def compare(size: str, names: list[str], rounds: int, seconds: float) -> None:
    with onnx_peers.written(__file__, size) as folder, contextlib.ExitStack() as stack:
        field: dict[str, Asked] = {}
        for name in names:
            if name in OURS:
                export, *options = OURS[name]
                server = export_server(Path(folder) / export / "base", *options)
            else:
                server = served(onnx_peers.__file__, folder, f"{folder}/model.onnx{PEERS[name]}")
            try:
                field[name] = Asked(name, stack.enter_context(server))
            except RuntimeError as error:
                print(f"{size}, {name}: left out. {error}", flush=True)
                continue
            for clients in CLIENTS:
                loaded(field[name].server.port, clients, min(1, seconds))  # for warming up
        for _ in range(rounds):
            for clients in CLIENTS:
                for one in field.values():
                    one.ask(clients, seconds)
        print(f"\n{size}: requests a second and latency, {rounds} rounds of {seconds:g} seconds")
        title = "".join(f"{f'{clients} clients':>21}" for clients in CLIENTS)
        print(f"  {'':20}{title}{'MB':>8}", *field.values(), sep="\n")
        for ours, peer in itertools.product(OURS, PEERS):
            if {ours, peer} <= set(field) and ours.split()[-1] == peer.split()[-1]:  # of one dtype
                one, other = field[ours], field[peer]
                ratios = ", ".join(f"{clients} clients {one.against(other, clients):.2f}x" for clients in CLIENTS)
                print(f"  {ours} against {peer}: {ratios}")
        if "ours, TF float32" in field:
            most = resident(field["ours, TF float32"].server.process.pid)
            for name in [name for name in OURS if name in field][:-1]:
                ratio = resident(field[name].server.process.pid) / most
                print(f"  memory of {name} against ours, TF float32: {ratio:.2f}x", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["write"]:
        return write(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="seconds for each number of clients in a round")
    parser.add_argument("--sizes", nargs="+", default=["minilm", "base"], choices=["minilm", "base"])
    parser.add_argument("--only", nargs="+", default=[*OURS, *PEERS], choices=[*OURS, *PEERS], metavar="NAME")
    options = parser.parse_args()
    for size in options.sizes:
        compare(size, options.only, options.rounds, options.seconds)


if __name__ == "__main__":
    main()
