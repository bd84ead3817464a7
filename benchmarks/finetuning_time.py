"""Compare the time of a fine-tuning epoch with HF Trainer and KerasHub: real batches, a few steps of each in turn.

    python benchmarks/finetuning_time.py --only sst2 --against hf hf-dynamic keras-hub --rounds 6     about 15 minutes
    python benchmarks/finetuning_time.py --only sst2 --ours ours-bf16 --against hf-bf16 --rounds 10

Every contestant trains with its own loop, `fit` or `Trainer.train`. A callback pauses it after every --steps steps
until its next turn, so noise on the machine affects all contestants alike. The time of an epoch is its number of steps
times the median, over the rounds, of the mean step. The ratio is the median of the ratios of the rounds. Tokenizing,
tracing and the first --steps steps are not counted. KerasHub's BERT has only the tanh GELU and is timed with it; where
the other contestants' weights need another GELU, KerasHub runs with random weights. Needs the data of finetuning.py.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import finetuning
import finetuning_data
from interleave import assemble, race, ratio


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        return worker({**json.loads(sys.argv[3]), "model": sys.argv[2]})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = [model for model in finetuning.MODELS if model != "words"]
    parser.add_argument("--only", nargs="+", default=["sst2"], choices=finetuning_data.DATASETS)
    parser.add_argument("--ours", default="ours", choices=("ours", "ours-bf16"))
    parser.add_argument("--against", nargs="+", default=["hf", "hf-dynamic", "keras-hub", "frozen"], choices=models)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=10, help="steps of each contestant in a round")
    parser.add_argument("--korean", help="the source that the Korean tasks start from")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for task in arguments.only:
            start = finetuning_data.start(task, arguments.korean, folder)
            settings = {"task": task, "start": start, "seed": 0, "limit": None, "learning_rate": 5e-5}
            settings |= {"steps": arguments.steps, "epochs": 1000}  # which it never reaches
            print(
                f"\n{task}, from {Path(start).name}, {arguments.rounds} rounds of {arguments.steps} steps", flush=True
            )
            environments = {key: {"KERAS_BACKEND": "tensorflow"} for key in (arguments.ours, *arguments.against)}
            contestants = assemble(__file__, environments, settings)
            if [one.name for one in contestants[:1]] != [arguments.ours]:
                sys.exit("Our own contestant did not start. The lines above say why.")
            for number in range(arguments.rounds):
                race(contestants, 1)
                said = ", ".join(f"{one.name} {one.seconds[-1] / arguments.steps:.3f} s" for one in contestants)
                print(f"  round {number}: a step of {said}", flush=True)
            print("  times as fast   an epoch")
            for one in contestants:
                epoch = one.ready["steps"] * one.median / arguments.steps
                times = ratio(one, contestants[0])
                print(f"  {times:13.2f}   {epoch:6.1f} s   {one.name}: {finetuning.MODELS[one.name]}", flush=True)
                one.close()


class Clock:
    """Reports the time of every few steps, then waits for a line of input. Stops at the end of the input."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.done = 0
        self.began = 0.0

    def step(self, of_an_epoch: int) -> bool:
        """Called after each step. Returns whether training must stop."""
        self.done += 1
        if self.done % self.steps:
            return False
        seconds = time.perf_counter() - self.began
        said: dict[str, Any] = {"steps": of_an_epoch} if self.done == self.steps else {"seconds": seconds}
        print(json.dumps(said), flush=True)
        stop = not sys.stdin.readline()
        self.began = time.perf_counter()
        return stop


def worker(run: dict[str, Any]) -> None:
    try:
        finetuning.trained(run, Clock(run["steps"]))
        print(json.dumps({"stopped": True}), flush=True)
    except Exception as error:  # reported, while the others continue
        print(json.dumps({"missing": f"{type(error).__name__}: {error}"[:200]}), flush=True)


if __name__ == "__main__":
    main()
