"""Compare the engines of keras_bert.inference with ONNX Runtime as others use it, and with HuggingFace on torch.

python benchmarks/engines.py
python benchmarks/engines.py --sizes minilm --rounds 21
python benchmarks/engines.py --sizes base --batches "8 x 128" --rounds 35 --only "ours, TF" "plain ORT"

All contestants get the same ids and run in turn, each in a process of its own. In a turn, each answers a short batch
ten times, as a server does, and the first answer does not count. "plain ORT" is a HuggingFace model
written by torch.onnx (dynamo, dynamic shapes), its int8 the one of `quantize_dynamic(per_channel=True)`. OpenVINO runs
the same file, if it is installed (pip install openvino). "compiled" is torch.compile, which
takes up to a minute for each shape, and "HF int8" is torch's quantize_dynamic.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from encoder_peers import SHAPES, batch
from interleave import Contestant
from onnx_peers import session, write_onnx

BATCHES = {
    "1 x 16": (1, 16, None),
    "1 x 64": (1, 64, None),
    "1 x 128": (1, 128, None),
    "8 x 128": (8, 128, None),
    "ragged 32 x 128": (32, 128, 28),
}
CALLS = {"1 x 16": 9, "1 x 64": 9, "1 x 128": 9, "8 x 128": 1, "ragged 32 x 128": 1}  # of a turn, after one to warm up
Run = Callable[[dict[str, np.ndarray]], Any]
FROZEN = {"KERAS_BACKEND": "tensorflow", "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"}


def ours(size: str, engine: str, dtype: str) -> Run:
    import keras
    import tensorflow as tf

    from keras_bert import Bert, BertConfig, Preprocessor, Vocabulary
    from keras_bert.int8_copy import int8_copy
    from keras_bert.model import with_dtype
    from keras_bert.onnx_graph.onnx_runner import OnnxRunner
    from keras_bert.text.tokenized_rows import TokenizedRows

    layers, hidden, heads = SHAPES[size]
    config = BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden
    )
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"p{number}" for number in range(30518))])
    bert = Bert(config, Preprocessor(vocabulary, seq_length=128))
    model = keras.Model(bert.input, bert.output["sequence_output"])
    if engine == "tensorflow":
        copy = int8_copy(bert)[0] if dtype == "int8" else with_dtype(bert, dtype)
        graph = tf.function(lambda inputs: copy(inputs, training=False)["sequence_output"])
        return lambda inputs: graph({name: tf.constant(x) for name, x in inputs.items()}).numpy()
    run = OnnxRunner.of(model, int8=dtype == "int8")

    def by_length(inputs: dict[str, np.ndarray]) -> Any:
        lengths = inputs["input_mask"].sum(1)
        if (lengths == lengths[0]).all():
            return run.on_inputs(inputs)
        rows = [ids[1 : length - 1] for ids, length in zip(inputs["input_word_ids"], lengths, strict=True)]
        ragged = tf.RaggedTensor.from_row_lengths(np.concatenate(rows), lengths - 2)
        return run(TokenizedRows([ragged], bert.preprocessor.packer), np.arange(len(rows)))

    return by_length


def plain(file: str) -> Run:
    run = session(file)
    return lambda inputs: run.run(None, _int64(inputs))


def openvino(file: str, precision: str) -> Run:
    import openvino

    hints = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    run = openvino.Core().compile_model(file, "CPU", hints)
    return lambda inputs: run(_int64(inputs))[0]


def hugging_face(size: str, dtype: str, *, compiled: bool = False) -> Run:
    import torch

    model = _hugging_face(size)
    if dtype == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})
    else:
        model = model.to(getattr(torch, dtype))
    if compiled:
        model = torch.compile(model, dynamic=False)  # for each shape

    def run(inputs: dict[str, np.ndarray]) -> Any:
        with torch.inference_mode():
            return model(**{name: torch.from_numpy(x) for name, x in _int64(inputs).items()})

    return run


def _int64(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs with HuggingFace's names and type."""
    names = {"input_ids": "word_ids", "attention_mask": "mask", "token_type_ids": "type_ids"}
    return {name: inputs[f"input_{ours}"].astype("int64") for name, ours in names.items()}


def _hugging_face(size: str) -> Any:
    import transformers

    layers, hidden, heads = SHAPES[size]
    config = transformers.BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden
    )
    return transformers.BertModel(config).eval()


FIELD: dict[str, tuple[Callable[[str, str], Run], dict[str, str]]] = {
    "ours, ORT int8": (lambda size, file: ours(size, "onnxruntime", "int8"), {}),
    "ours, ORT float32": (lambda size, file: ours(size, "onnxruntime", "float32"), {}),
    "ours, TF int8": (lambda size, file: ours(size, "tensorflow", "int8"), FROZEN),
    "ours, TF bfloat16": (lambda size, file: ours(size, "tensorflow", "bfloat16"), FROZEN),
    "ours, TF float32": (lambda size, file: ours(size, "tensorflow", "float32"), FROZEN),
    "plain ORT int8": (lambda size, file: plain(f"{file}.int8"), {}),
    "plain ORT float32": (lambda size, file: plain(file), {}),
    "OpenVINO bfloat16": (lambda size, file: openvino(file, "bf16"), {}),
    "OpenVINO float32": (lambda size, file: openvino(file, "f32"), {}),
    "HF compiled bfloat16": (lambda size, file: hugging_face(size, "bfloat16", compiled=True), {}),
    "HF compiled float32": (lambda size, file: hugging_face(size, "float32", compiled=True), {}),
    "HF int8": (lambda size, file: hugging_face(size, "int8"), {}),
    "HF bfloat16": (lambda size, file: hugging_face(size, "bfloat16"), {}),
    "HF float32": (lambda size, file: hugging_face(size, "float32"), {}),
}


class Timed(Contestant):
    """A contestant that is asked for a batch by its name."""

    def time(self, title: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{title}\n")
        self.process.stdin.flush()
        return self._answer()["seconds"]


def timed(run: Run, inputs: dict[str, np.ndarray]) -> float:
    start = time.perf_counter()
    run(inputs)
    return time.perf_counter() - start


def worker(name: str, size: str, file: str) -> None:
    run = FIELD[name][0](size, file)
    batches = {title: batch(*numbers) for title, numbers in BATCHES.items()}
    print('{"ready": 1}', flush=True)
    for line in sys.stdin:
        title = line.strip()
        run(batches[title])  # the others ran in between, and emptied the caches
        print(
            json.dumps({"seconds": statistics.median(timed(run, batches[title]) for _ in range(CALLS[title]))}),
            flush=True,
        )
    import resource

    print(json.dumps({"peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}), flush=True)


def compare(size: str, rounds: int, titles: list[str], only: list[str]) -> None:
    print(f"\n{size}: median ms of {rounds} rounds (fewer for the longest), and the peak memory in GiB")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "plain.onnx")
        subprocess.run([sys.executable, __file__, "export", size, file], check=True, capture_output=True)
        field = [
            Timed(__file__, name, {"size": size, "file": file}, environment)
            for name, (_, environment) in FIELD.items()
            if (find_spec("openvino") or not name.startswith("OpenVINO")) and name.startswith(tuple(only))
        ]
        print(f"  {'':20}" + "".join(f"{title:>16}" for title in titles))
        medians: dict[str, dict[str, float]] = {one.name: {} for one in field}
        for title in titles:
            times: dict[str, list[float]] = {one.name: [] for one in field}
            for one in field:
                one.time(title)
            few = title in ("8 x 128", "ragged 32 x 128")
            for _ in range(max(3, rounds // 5) if few else rounds):
                for one in field:
                    times[one.name].append(one.time(title))
            for name, seconds in times.items():
                medians[name][title] = statistics.median(seconds)
        for one in field:
            memory = one.close()["peak_gib"]
            numbers = "".join(f"{medians[one.name][title] * 1e3:16.1f}" for title in titles)
            print(f"  {one.name:20}{numbers}{memory:8.2f}", flush=True)
    best: dict[str, float] = {}
    for rival in ("plain ORT", "OpenVINO", "HF"):
        if not any(name.startswith(rival) for name in medians):
            if rival.startswith(tuple(only)):
                print(f"  {rival}: left out. Run: pip install {rival.lower()}")
            continue
        for title in titles:
            one, other = (
                min(found[title] for name, found in medians.items() if name.startswith(who)) for who in ("ours", rival)
            )
            best[title] = other / one
        print(f"  our best against the best of {rival}: " + ", ".join(f"{title} {x:.2f}x" for title, x in best.items()))


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], **json.loads(sys.argv[3]))
        return
    if sys.argv[1:2] == ["export"]:
        write_onnx(_hugging_face(sys.argv[2]), sys.argv[3])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", nargs="*", default=list(SHAPES)[::-1])
    parser.add_argument("--batches", nargs="*", default=list(BATCHES), choices=BATCHES, metavar="BATCH")
    parser.add_argument("--only", nargs="*", default=[""], metavar="NAME", help="contestants whose names begin so")
    options = parser.parse_args()
    for size in options.sizes:
        compare(size, options.rounds, options.batches, options.only)


if __name__ == "__main__":
    main()
