"""The least time that the products of BERT's weights can take on this CPU, and what TensorFlow takes for its parts.

    python benchmarks/cpu_limits.py        three minutes; needs a C compiler and a CPU with AVX-512 VNNI

The first table is arithmetic: the operations of the products with weights, divided by what one thread on each core
computes with its widest instructions in registers, or the bytes of the weights, divided by what the threads read from
memory; the larger of the two. Real products are slower: they must also read and write their numbers. Attention, norms
and activations come on top. Weights that fit the cache may be read faster.

The other tables are measured, with rearranged weights (TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1). One is a graph that has only
these products, one after the other, with rounding for int8. The other is a whole encoder of the same depth whose width
is 12: there are all operations, but hardly anything to compute. Compare the times with those of benchmarks/engines.py
on the same machine.
"""

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"}

import numpy as np
from encoder_peers import SHAPES, batch
from engines import BATCHES
from page import machine

# By type: an instruction that multiplies and adds, its operations, the flag of the CPU that has it, bytes of a weight.
TYPES = {
    "float32": ("vfmadd231ps", 32, "avx512f", 4),
    "bfloat16": ("vdpbf16ps", 64, "avx512_bf16", 2),
    "int8": ("vpdpbusd", 128, "avx512_vnni", 1),
}
SUMS = range(8, 28)  # registers; as many sums at a time, so that none waits for the one before
REPEATS = 20_000_000  # of all sums
STEP = 512  # bytes that the loop which reads takes at a time
MEMORY = 512 << 20  # bytes to read for each thread, more than any cache holds
ROUNDS, CALLS = 5, 50
LOOP = """void {name}(long rounds, const char *memory) {{
    while (rounds--) {{
        __asm__ volatile({lines} : : "r"(memory) : {registers}, "memory");
        memory += {step};
    }}
}}
"""


def source() -> str:
    """A function in C for each type, and one that reads memory."""

    def loop(name: str, lines: list[str], registers: range, step: int = 0) -> str:
        used = ", ".join(f'"xmm{number}"' for number in registers)
        return LOOP.format(name=name, lines="".join(f'"{line}\\n"' for line in lines), registers=used, step=step)

    sums = [
        loop(name, [f"{instruction} %%zmm0, %%zmm1, %%zmm{number}" for number in SUMS], SUMS)
        for name, (instruction, *_) in TYPES.items()
    ]
    into = SUMS[: STEP // 64]
    lines = [f"vmovups {64 * place}(%0), %%zmm{number}" for place, number in enumerate(into)]
    return "".join(sums) + loop("reads", lines, into, STEP)


def compiled(folder: str) -> Any:
    file = Path(folder) / "loops.c"
    file.write_text(source())
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-mavx512f", "-o", f"{file}.so", str(file)], check=True)
    return ctypes.CDLL(f"{file}.so")


def most(loop: Any, repeats: int, memory: np.ndarray) -> float:
    """The most rounds of a loop in a second, by one thread on each core with its row of the memory."""
    rates = []
    for _ in range(ROUNDS):
        threads = [
            threading.Thread(target=loop, args=(ctypes.c_long(repeats), row.ctypes.data_as(ctypes.c_void_p)))
            for row in memory
        ]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rates.append(len(threads) * repeats / (time.perf_counter() - start))
    return max(rates)


def peaks() -> tuple[dict[str, float], float]:
    """The operations of each type in a second, and the bytes read in a second."""
    flags = Path("/proc/cpuinfo").read_text().split()
    memory = np.ones((os.cpu_count() or 1, MEMORY), "int8")
    with tempfile.TemporaryDirectory() as folder:
        loops = compiled(folder)
        rates = {
            name: most(getattr(loops, name), REPEATS, memory) * operations * len(SUMS)
            for name, (_, operations, flag, _) in TYPES.items()
            if flag in flags
        }
        return rates, most(loops.reads, MEMORY // STEP, memory) * STEP


def weights(size: str) -> list[tuple[int, int]]:
    """The shapes of the kernels: for queries, keys and values, for attention's output, and the feed-forward two."""
    layers, width, _ = SHAPES[size]
    return [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)] * layers


def least(size: str, pieces: int, dtype: str, rate: float, bandwidth: float) -> float:
    """Milliseconds."""
    count = sum(rows * columns for rows, columns in weights(size))
    return 1e3 * max(2 * count * pieces / rate, count * TYPES[dtype][-1] / bandwidth)


def products(size: str, pieces: int, dtype: str) -> float:
    """Milliseconds of a graph that has the products only."""
    import tensorflow as tf

    from keras_bert.tensorflow_kernels import int8_product

    width, is_int8 = SHAPES[size][1], dtype == "int8"
    random = np.random.default_rng(0)
    kernels, biases = [], []
    for shape in weights(size):
        kernel = random.integers(-127, 128, shape, "int8") if is_int8 else random.standard_normal(shape, "float32") / 99
        kernels.append(tf.Variable(kernel if is_int8 else tf.cast(kernel, dtype)))
        biases.append(tf.Variable(tf.zeros(shape[1], "float32" if is_int8 else dtype)))

    def product(x: Any, kernel: Any, bias: Any) -> Any:
        if is_int8:
            return int8_product(x, tf.convert_to_tensor(kernel), tf.ones(bias.shape), bias, tf.constant(1.0), None)
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)

    @tf.function(autograph=False)
    def graph(x: Any) -> Any:
        for kernel, bias in zip(kernels, biases, strict=True):
            x = product(x[:, : kernel.shape[0]], kernel, bias)
        return x

    return milliseconds(graph, tf.zeros([pieces, width], "float32" if is_int8 else dtype))


def narrow(size: str, rows: int, length: int) -> float:
    """Milliseconds of an encoder with hardly anything to compute."""
    import tensorflow as tf

    import keras_bert

    layers, _, heads = SHAPES[size]
    config = keras_bert.BertConfig(
        hidden_size=heads, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=heads
    )
    bert = keras_bert.Bert(config)
    inputs = {name: tf.constant(x) for name, x in batch(rows, length, None).items()}
    return milliseconds(tf.function(lambda x: bert(x, training=False)["sequence_output"]), inputs)


def milliseconds(graph: Any, inputs: Any) -> float:
    """The median of calls."""

    def timed() -> float:
        start = time.perf_counter()
        graph(inputs).numpy()
        return time.perf_counter() - start

    return 1e3 * statistics.median([timed() for _ in range(2 * CALLS)][CALLS:])


def show(title: str, of: Callable[[str, str, str], float], types: list[str]) -> None:
    print(f"\n{title:40}" + "".join(f"{batch:>9}" for batch in SHOWN))
    for size in SHAPES:
        for dtype in types:
            times = "".join(f"{of(size, batch, dtype):9.2f}" for batch in SHOWN)
            print(f"  {size:8}{dtype:30}{times}", flush=True)


SHOWN = [title for title, (_, _, mean) in BATCHES.items() if mean is None]


def main() -> None:
    if "avx512_vnni" not in Path("/proc/cpuinfo").read_text():
        sys.exit("This CPU has no AVX-512 VNNI, which the loops in C use.")
    pieces = {title: BATCHES[title][0] * BATCHES[title][1] for title in SHOWN}
    rates, bandwidth = peaks()
    print(machine())
    shown = ", ".join(f"{rate / 1e12:.2f} in {name}" for name, rate in rates.items())
    print(f"trillions of operations in a second: at most {shown}; reads at most {bandwidth / 1e9:.1f} GB/s")

    def arithmetic(size: str, title: str, dtype: str) -> float:
        return least(size, pieces[title], dtype, rates[dtype], bandwidth)

    show("ms, at least", arithmetic, list(rates))
    show(
        "ms, TensorFlow, the products only",
        lambda size, title, dtype: products(size, pieces[title], dtype),
        list(rates),
    )
    show("ms, TensorFlow, all, at width 12", lambda size, title, _: narrow(size, *BATCHES[title][:2]), ["float32"])


if __name__ == "__main__":
    main()
