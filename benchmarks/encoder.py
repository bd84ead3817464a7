"""Compare the encoder with its peers in one run: tokens per second, ratios, share of the machine's matrix peak.

python benchmarks/encoder.py                 everything, about 25 minutes on 2 cores
python benchmarks/encoder.py --rounds 5 --only "base bfloat16 8 x 128"

"frozen weights" is keras_bert with TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1, which packs the weights (for inference only).
"""

import argparse
import json
import sys

import encoder_peers as peers
from interleave import assemble, race, ratio, serve

PEERS = {
    "keras_bert": (peers.keras_bert, {"KERAS_BACKEND": "tensorflow"}),
    "with Keras's AdamW": (peers.keras_bert_with_keras_adamw, {"KERAS_BACKEND": "tensorflow"}),
    "frozen weights": (peers.keras_bert, {"KERAS_BACKEND": "tensorflow", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"}),
    "keras_bert on JAX": (peers.keras_bert, {"KERAS_BACKEND": "jax"}),
    "HuggingFace": (peers.hugging_face, {}),
    "KerasHub": (peers.keras_hub, {"KERAS_BACKEND": "tensorflow"}),
    "Model Garden": (peers.model_garden, {}),
    "ONNX Runtime": (peers.onnx_runtime, {}),
    "matrix peak": (peers.matrix_peak, {}),
}
BATCHES = {"8 x 128": (8, 128, None), "ragged 32 x 128": (32, 128, 30), "1 x 16": (1, 16, None)}


def cases() -> dict[str, dict]:
    """Every row of the table: inference of two sizes in two dtypes, and a fine-tuning step of base."""
    rows = {}
    for shape in ("base", "minilm"):
        for dtype in ("bfloat16", "float32"):
            for name, numbers in BATCHES.items():
                case = {"shape": shape, "dtype": dtype, "batch": numbers, "train": False}
                rows[f"{shape} {dtype} {name}"] = case
    for dtype in ("bfloat16", "float32"):
        for name in ("8 x 128", "ragged 32 x 128"):
            rows[f"train base {dtype} {name}"] = {
                "shape": "base",
                "dtype": dtype,
                "batch": BATCHES[name],
                "train": True,
            }
    return rows


def takes_part(peer: str, case: dict) -> bool:
    if peer == "ONNX Runtime":
        return case["dtype"] == "float32" and not case["train"]
    if peer in ("keras_bert on JAX", "frozen weights"):
        return not case["train"]
    if peer == "with Keras's AdamW":
        return case["train"]
    return True


def flops(case: dict, tokens: int) -> float:
    """FLOPs of one forward pass over the real tokens. A training step takes three times that."""
    layers, hidden, _ = peers.SHAPES[case["shape"]]
    length = tokens / case["batch"][0]
    a_token = layers * (24 * hidden**2 + 4 * length * hidden)
    return a_token * tokens * (3 if case["train"] else 1)


def run(title: str, case: dict, rounds: int, against: list[str]) -> dict[str, float]:
    """Print a line for each contestant, and return how many times as fast as each of the others ours is."""
    tokens = int(peers.batch(*case["batch"])["input_mask"].sum())
    print(f"\n{title}: {tokens} real tokens")
    wanted = {
        name: environment
        for name, (_, environment) in PEERS.items()
        if takes_part(name, case) and (not against or name in ("keras_bert", "matrix peak", *against))
    }
    field = assemble(__file__, wanted, case)
    race(field, rounds)
    ours, ratios = field[0], {}
    peak = next(contestant for contestant in field if contestant.name == "matrix peak")
    at_peak = 2 * 2048**3 / peak.median / 1e9
    print(f"  {'':18} {'ms':>8} {'tokens/s':>9} {'ours is':>8} {'GFLOP/s':>8} {'of peak':>8} {'first s':>8} {'GiB':>6}")
    for contestant in field:
        memory = contestant.close()["peak_gib"]
        if contestant is peak:
            print(f"  {'matrix peak':18} {'':8} {'':9} {'':8} {at_peak:8.0f}")
            continue
        speed = flops(case, tokens) / contestant.median / 1e9
        share = flops(case, tokens) / (2 * 2048**3) * ratio(peak, contestant)
        if contestant is not ours:
            ratios[contestant.name] = ratio(contestant, ours)
        times = f"{ratios[contestant.name]:.2f}x" if contestant.name in ratios else ""
        print(
            f"  {contestant.name:18} {contestant.median * 1e3:8.1f} {tokens / contestant.median:9.0f} {times:>8} "
            f"{speed:8.0f} {share:8.0%} {contestant.ready['first']:8.1f} {memory:6.2f}",
            flush=True,
        )
    return ratios


def summary(rows: dict[str, dict[str, float]]) -> None:
    """All ratios in one table."""
    names = [name for name in PEERS if any(name in ratios for ratios in rows.values())]
    print(f"\n{'times as fast as':36}" + "".join(f"{name:>18}" for name in names))
    for title, ratios in rows.items():
        print(f"{title:36}" + "".join(f"{ratios[name]:18.2f}" if name in ratios else f"{'-':>18}" for name in names))


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        prepare, _ = PEERS[sys.argv[2]]
        serve(lambda: prepare(json.loads(sys.argv[3])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="only cases whose title begins with this")
    parser.add_argument("--against", nargs="*", default=[], help="only these peers, such as KerasHub HuggingFace")
    options = parser.parse_args()
    wanted = {title: case for title, case in cases().items() if title.startswith(options.only)}
    summary({title: run(title, case, options.rounds, options.against) for title, case in wanted.items()})


if __name__ == "__main__":
    main()
