"""Where TensorFlow spends the time of one text: milliseconds of each kind of operation, by TensorFlow's profiler.

    python benchmarks/operations.py                        one text of 16 and one of 64 pieces, MiniLM's size
    TF_NUM_INTRAOP_THREADS=1 python benchmarks/operations.py        each operation on one thread

The model has random weights. The first line has the median time of a call. The profiler makes calls slower: its lines
add up to its own total. TensorFlow runs with TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"}

from encoder_peers import SHAPES, batch

CALLS = 100
KINDS = {  # how TensorFlow names them on a CPU with oneDNN
    "_MklNativeFusedMatMul": "products with weights",
    "_MklLayerNorm": "layer norms",
    "_MklFusedBatchMatMulV2": "attention",
    "_MklSoftmax": "attention",
    "_MklBatchMatMulV2": "attention",
    "GatherV2": "gathers",
}


def encoder(size: str, length: int) -> Callable[[], Any]:
    import tensorflow as tf

    import keras_bert

    layers, hidden, heads = SHAPES[size]
    config = keras_bert.BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden
    )
    bert = keras_bert.Bert(config)
    inputs = {name: tf.constant(x) for name, x in batch(1, length, None).items()}
    graph = tf.function(lambda x: bert(x, training=False)["sequence_output"])
    return lambda: graph(inputs).numpy()


def alone(call: Callable[[], Any]) -> float:
    def timed() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return 1e3 * statistics.median([timed() for _ in range(2 * CALLS)][CALLS:])


def profiled(call: Callable[[], Any]) -> tuple[float, Counter[str], Counter[str]]:
    """The milliseconds of a call, of its operations by kind, and how many of each there are."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        whole = time.perf_counter() - start
        tf.profiler.experimental.stop()
        space = xplane_pb2.XSpace.FromString(next(Path(folder).rglob("*.xplane.pb")).read_bytes())
    milliseconds: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            kind = KINDS.get(plane.event_metadata[event.metadata_id].name.rpartition(":")[2])
            if kind:
                milliseconds[kind] += event.duration_ps / 1e9 / CALLS
                counts[kind] += 1
    return 1e3 * whole / CALLS, milliseconds, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="minilm", choices=SHAPES)
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64])
    options = parser.parse_args()
    for length in options.lengths:
        call = encoder(options.size, length)
        print(f"{options.size}, 1 x {length}: {alone(call):.2f} ms", flush=True)
        whole, milliseconds, counts = profiled(call)
        for kind, spent in milliseconds.most_common():
            print(f"  {kind:24}{spent:6.2f} ms {round(counts[kind] / CALLS):3} operations")
        print(f"  {'everything else':24}{whole - sum(milliseconds.values()):6.2f} ms of {whole:.2f}", flush=True)


if __name__ == "__main__":
    main()
