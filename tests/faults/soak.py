"""Random faults: `python -m tests.faults.soak --count 200 --seed 0`."""

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.faults.servers import host_with_servers
from tests.faults.trial import Fault

# The slow commands are drawn less often.
WEIGHTS = {
    "vocab": 4,
    "examples": 6,
    "examples-on-two": 1,
    "convert-hf": 4,
    "convert-google": 4,
    "convert-keras-bert": 4,
    "download": 6,
    "download-hub": 6,
    "pretrain": 2,
    "finetune": 2,
    "export": 2,
}
KINDS = ("kill", "kill", "term", "full", "clock", "unreadable")


def draw(count: int, seed: int) -> list[Fault]:
    """Faults in random order."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        command = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        kinds = ("worker",) if command == "examples-on-two" else KINDS[: 5 if command.startswith("download") else 6]
        found.append(Fault(command, chance.choice(kinds), seed * 1_000_000 + number))
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0, help="begin with the fault of this number, from 0")
    parser.add_argument("--only", default="", help="commands, separated by commas")
    asked = parser.parse_args()
    faults = draw(asked.count, asked.seed)[asked.first :]
    if asked.only:
        faults = [fault for fault in faults if fault.command in asked.only.split(",")]
    failed = 0
    with tempfile.TemporaryDirectory() as folder, host_with_servers(Path(folder)) as host:
        for fault in faults:
            try:
                print(host.recovers(fault), flush=True)
            except AssertionError as error:
                failed += 1
                print("NOT RECOVERED", error, flush=True)
    print(f"seed {asked.seed}: {len(faults) - failed} of {len(faults)} faults recovered")
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
