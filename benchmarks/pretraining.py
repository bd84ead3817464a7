"""Compare a pretraining step with the peers in one run: tokens per second and ratios.

python benchmarks/pretraining.py                      everything, about 10 minutes on 2 cores
python benchmarks/pretraining.py --only mini --rounds 5
"""

import argparse
import json
import sys

import pretraining_peers as peers
from interleave import assemble, race, ratio, serve

PEERS = {
    "keras_bert": (peers.keras_bert, {"KERAS_BACKEND": "tensorflow"}),
    "HuggingFace": (peers.hugging_face, {}),
    "Model Garden": (peers.model_garden, {}),
}
BATCHES = {"tiny": (32, 128), "mini": (32, 128), "base": (8, 128)}


def run(title: str, case: dict, rounds: int, against: list[str]) -> None:
    rows, length = case["batch"]
    print(f"\n{title} {rows} x {length}, {peers.PREDICTIONS} masked")
    print(f"  {'':14} {'ms':>8} {'tokens/s':>9} {'ours is':>8} {'first s':>8} {'GiB':>6}")
    wanted = {name: PEERS[name][1] for name in PEERS if not against or name in ("keras_bert", *against)}
    field = assemble(__file__, wanted, case)
    race(field, rounds)
    for contestant in field:
        memory = contestant.close()["peak_gib"]
        times = f"{ratio(contestant, field[0]):.2f}x" if contestant is not field[0] else ""
        print(
            f"  {contestant.name:14} {contestant.median * 1e3:8.1f} {rows * length / contestant.median:9.0f} "
            f"{times:>8} {contestant.ready['first']:8.1f} {memory:6.2f}",
            flush=True,
        )


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        prepare, _ = PEERS[sys.argv[2]]
        serve(lambda: prepare(json.loads(sys.argv[3])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="only cases whose title begins with this")
    parser.add_argument("--against", nargs="*", default=[], help="only these peers, such as HuggingFace")
    options = parser.parse_args()
    for size, shape in BATCHES.items():
        for dtype in ("bfloat16", "float32"):
            title = f"{size} {dtype}"
            if title.startswith(options.only):
                run(title, {"size": size, "dtype": dtype, "batch": shape}, options.rounds, options.against)


if __name__ == "__main__":
    main()
