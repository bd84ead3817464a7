"""Run contestants in separate processes and time them in turn, so that noise on the machine affects all alike."""

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


class Contestant:
    """A process `python SCRIPT worker NAME ARGUMENTS`. It runs once for each line of input and returns the seconds."""

    def __init__(self, script: str, name: str, arguments: dict[str, Any], environment: dict[str, str]) -> None:
        self.name = name
        self.seconds: list[float] = []
        self.process = subprocess.Popen(
            [sys.executable, script, "worker", name, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu", **environment},
        )
        self.ready = self._answer()

    def run(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended; its output says why
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        self.seconds.append(self._answer()["seconds"])

    def close(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.close()
        last = self._answer()
        self.process.wait()
        return last

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith('{"'):  # not a dict that a peer prints
                return json.loads(line)
        raise ProcessLookupError(f"{self.name} ended without an answer. It may have run out of memory")


def serve(
    prepare: Callable[[], Callable[[], Any]], *, facts: dict[str, Any] | None = None, own_clock: bool = False
) -> None:
    """The worker: prepare and warm up, run once for each line of input, and report the peak memory at the end.

    facts: what `prepare` found out, for `Contestant.ready`. own_clock: whether a run returns the seconds that count.
    """
    start = time.perf_counter()
    try:
        run = prepare()
        run()
    except Exception as error:  # reported, while the others continue
        print(json.dumps({"missing": f"{type(error).__name__}: {error}"[:200]}), flush=True)
        return
    first = time.perf_counter() - start
    run()
    print(json.dumps({"first": first, **(facts or {})}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        found = run()
        print(json.dumps({"seconds": found if own_clock else time.perf_counter() - start}), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"peak_gib": peak}), flush=True)


def assemble(script: str, environments: dict[str, dict[str, str]], arguments: dict[str, Any]) -> list[Contestant]:
    """One contestant per name. One that cannot run is left out, and the output says why."""
    field = [Contestant(script, name, arguments, environment) for name, environment in environments.items()]
    for contestant in field:
        if "missing" in contestant.ready:
            print(f"  {contestant.name}: left out, {contestant.ready['missing']}", flush=True)
    return [contestant for contestant in field if "missing" not in contestant.ready]


def race(contestants: list[Contestant], rounds: int) -> None:
    """Run all contestants in turn, `rounds` times."""
    for _ in range(rounds):
        for contestant in contestants:
            contestant.run()


def ratio(slower: Contestant, faster: Contestant) -> float:
    """The median ratio over the rounds. In each round, both ran within seconds of each other."""
    return statistics.median(a / b for a, b in zip(slower.seconds, faster.seconds, strict=True))
