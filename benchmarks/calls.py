"""Compare Python calls with one text: the answer of a classifier, and the vector of a sentence.

    python benchmarks/calls.py                              about 10 minutes on 2 cores
    python benchmarks/calls.py --sizes minilm --rounds 21

All contestants have the same weights: MiniLM's, or random ones of base, and a random head. They run in turn, each in a
process of its own. In a turn, each gets the same ten sentences of SST-2, one at a time, and the median of nine counts,
because the others emptied the caches before the first. "plain ORT" is the package tokenizers in front of a session, and
"optimum-style ORT" the tokenizer of transformers. "frozen" is TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import onnx_peers
from interleave import assemble, race, ratio, serve
from real_texts import texts

CALLS = 9  # of a turn, after one to warm up
Ask = Callable[[str], Any]
OURS = {
    "ours, ORT int8": ("onnxruntime", "int8"),
    "ours, ORT float32": ("onnxruntime", "float32"),
    "ours, TF bfloat16": ("tensorflow", "bfloat16"),
    "ours, TF float32": ("tensorflow", "float32"),
    "ours, TF float32, frozen": ("tensorflow", "float32"),
}
PEERS = {
    "classify": (
        "plain ORT int8",
        "plain ORT float32",
        "optimum-style ORT int8",
        "optimum-style ORT float32",
        "HF pipeline",
    ),
    "embed": ("sentence-transformers",),
}


def ours(name: str, call: str, folder: str) -> Ask:
    import keras_bert

    engine, dtype = OURS[name]
    kind = keras_bert.TextClassifier.load if call == "classify" else keras_bert.load
    model = kind(folder)
    if (engine, dtype) != ("tensorflow", "float32"):
        model = keras_bert.inference(model, engine=engine, dtype=dtype)
    if call == "embed":
        return lambda text: model.embed(text)[0]
    return lambda text: list(model.classify(text).scores.values())


def peer(name: str, folder: str) -> Ask:
    if name == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(folder, device="cpu")
        return lambda text: model.encode(text, show_progress_bar=False)
    if name == "HF pipeline":
        import transformers

        pipeline = transformers.pipeline("text-classification", folder, device="cpu")
        return lambda text: [one["score"] for one in sorted(pipeline(text, top_k=None), key=lambda one: one["label"])]
    file = f"{folder}/model.onnx" + (".int8" if name.endswith("int8") else "")
    make = onnx_peers.classifier if name.startswith("plain") else onnx_peers.classifier_like_optimum
    classify = make(folder, file)
    return lambda text: classify([text])[0]["scores"]


def worker(name: str, call: str, folder: str) -> None:
    facts: dict[str, Any] = {}
    sentences = itertools.cycle(texts())

    def prepare() -> Callable[[], float]:
        ask = ours(name, call, folder) if name in OURS else peer(name, folder)
        facts["answer"] = np.asarray(ask(texts()[0])).tolist()

        def turn() -> float:
            seconds = []
            for _ in range(1 + CALLS):
                text = next(sentences)
                start = time.perf_counter()
                ask(text)
                seconds.append(time.perf_counter() - start)
            return statistics.median(seconds[1:])

        return turn

    serve(prepare, facts=facts, own_clock=True)


def compare(size: str, call: str, folder: str, rounds: int) -> None:
    print(f"\n{size}, {call}: the median of {rounds} rounds", flush=True)
    environments = {name: {"KERAS_BACKEND": "tensorflow"} for name in (*OURS, *PEERS[call])}
    environments["ours, TF float32, frozen"]["TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"] = "1"
    field = assemble(__file__, environments, {"call": call, "folder": folder})
    race(field, rounds)
    peers = [one for one in field if one.name not in OURS]
    expected = next((one.ready["answer"] for one in peers[::-1]), field[-1].ready["answer"])
    print(f"{'':28}{'ms':>7}{'GiB':>6}  differs  times as fast as{''.join(f'{one.name:>27}' for one in peers)}")
    for one in field:
        differs = np.abs(np.subtract(one.ready["answer"], expected)).max()
        row = f"  {one.name:26}{1e3 * one.median:7.2f}{one.close()['peak_gib']:6.2f}  {differs:7.0e}{'':18}"
        print(row + "".join(f"{ratio(other, one):26.2f}x" for other in peers if one.name in OURS), flush=True)


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        return worker(sys.argv[2], **json.loads(sys.argv[3]))
    if sys.argv[1:2] == ["write"]:
        return onnx_peers.write_classifier(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", nargs="+", default=["minilm", "base"], choices=["minilm", "base"])
    parser.add_argument("--only", nargs="+", default=list(PEERS), choices=PEERS)
    options = parser.parse_args()
    for size in options.sizes:
        with onnx_peers.written(__file__, size) as folder:
            for call in options.only:
                compare(size, call, folder, options.rounds)


if __name__ == "__main__":
    main()
