"""Compare serving text vectors with transformers on the same kind of server: exports in float32, bfloat16 and int8.

    python benchmarks/serving.py [--size base] [--seconds 5] [--only "serve bfloat16" latency]        about ten minutes

Each measurement is printed when it is done:

    load DTYPE     seconds to export, to load the text SavedModel, for its first request; peak memory over the weights
    serve DTYPE    REST on loopback: seconds until it answers, p50, p99 and texts per second with 1, 8 and 64 clients
    serve peer     the same for transformers (torch, mean of the last layer) on uvicorn, which ours uses too
    short          64 short sentences through the text signature, against the same encoder at a fixed length of 128
    latency        one short text in this process, bfloat16 against float32

The texts come from ../shared/data, or else from benchmarks/README.md. The weights are random, which does not change the
time, and frozen (TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1). Figures that are compared were measured in turn, round by round.
"""

import argparse
import functools
import http.client
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from real_texts import texts
from running_server import export_server, served

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"] = "1"
CLIENTS = (1, 8, 64)
DTYPES = ("float32", "bfloat16", "int8")
PATH = "/v1/models/base:predict"

PEER = """
import sys, torch, transformers, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.concurrency import run_in_threadpool
folder, _, port = sys.argv[1:]
tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
model = transformers.BertModel.from_pretrained(folder).eval()

def embed(texts):
    with torch.inference_mode():
        packed = tokenizer(texts, padding=True, truncation=True, max_length=128, return_tensors="pt")
        mask = packed["attention_mask"][..., None]
        return ((model(**packed).last_hidden_state * mask).sum(1) / mask.sum(1)).tolist()

async def predict(request):
    rows = (await request.json())["instances"]
    return JSONResponse({"predictions": await run_in_threadpool(embed, rows)})

routes = [Route("/v1/models/base:predict", predict, methods=["POST"])]
uvicorn.run(Starlette(routes=routes), port=int(port), access_log=False, log_level="warning")
"""


# === In separate processes ===


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function in a new process and return its result."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def peak() -> float:
    """The peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def export(folder: Path, size: str, dtype: str) -> dict[str, float]:
    """Export a random model, or write it as a HuggingFace folder for the peer."""
    import keras
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  loaded before the memory is read

    import keras_bert
    from keras_bert.weights import hugging_face
    from keras_bert.weights.checkpoint import Checkpoint

    tf.constant(0)
    before = peak()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [mark + chr(code) for code in range(33, 127) for mark in ("", "##") if not chr(code).isupper()]
    words = sorted({word for text in texts() for word in text.lower().split() if word.isalpha()} - set(letters))
    known = [*pieces, *letters, *words][:30522]
    vocabulary = keras_bert.Vocabulary(known + [f"[unused{i}]" for i in range(30522 - len(known))])
    keras.utils.set_random_seed(0)  # the same weights in every export
    bert = keras_bert.Bert(keras_bert.BertConfig.from_size(size), keras_bert.Preprocessor(vocabulary))
    if dtype == "peer":
        folder.parent.mkdir(parents=True)
        hugging_face.write_checkpoint(Checkpoint.of(bert), folder)
        return {}
    begin = time.perf_counter()
    keras_bert.export(bert, folder, dtype=None if dtype == "float32" else dtype)
    weights = 4 * bert.count_params()
    return {"seconds": time.perf_counter() - begin, "memory": (peak() - before) / weights, "weights": weights}


def load(folder: Path, weights: float) -> dict[str, float]:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers its ops

    batch = tf.constant(texts()[:1])
    before, begin = peak(), time.perf_counter()
    loaded = tf.saved_model.load(str(folder / "text" / "1"))
    seconds = time.perf_counter() - begin
    loaded.signatures["serving_default"](text=batch)
    first = time.perf_counter() - begin - seconds
    return {"seconds": seconds, "first": first, "memory": (peak() - before) / weights}


def short(folder: Path) -> tuple[list[float], list[float]]:
    """Seconds for 64 short sentences, by round: the text signature, and the encoder at a fixed length of 128."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers its ops

    parts = ("text", "encoder", "preprocess")
    text, encoder, preprocess = (tf.saved_model.load(str(folder / part / "1")) for part in parts)
    batch = tf.constant([line for line in texts() if len(line.split()) < 12][:64])

    def fixed() -> None:
        packed = preprocess(batch)
        encoder.signatures["serving_default"](**{**packed, "input_mask": tf.ones_like(packed["input_mask"])})

    return rounds(5, lambda: text.signatures["serving_default"](text=batch), fixed)


def latency(folders: list[Path]) -> tuple[list[list[float]], float]:
    """Seconds for one short text, by round and export, and the lowest cosine between their vectors of 64 texts."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers its ops

    loaded = [tf.saved_model.load(str(folder / "text" / "1")) for folder in folders]
    signatures = [model.signatures["serving_default"] for model in loaded]
    one = tf.constant([next(line for line in texts() if len(line.split()) < 12)])
    times = rounds(100, *(functools.partial(signature, text=one) for signature in signatures))
    vectors = [signature(text=tf.constant(texts()[:64]))["embedding"].numpy() for signature in signatures]
    a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in vectors)
    return times, float((a * b).sum(1).min())


def rounds(count: int, *runs: Callable[[], Any]) -> list[list[float]]:
    """Run the functions in turn, after one warm-up each, and return the seconds."""
    times: list[list[float]] = [[] for _ in runs]
    for number in range(count + 1):
        for run, found in zip(runs, times, strict=True):
            begin = time.perf_counter()
            run()
            if number:
                found.append(time.perf_counter() - begin)
    return times


# === Over REST ===


def ask(connection: http.client.HTTPConnection, body: bytes) -> float:
    """Send one request and return the seconds."""
    begin = time.perf_counter()
    connection.request("POST", PATH, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    said = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"The server refused the request: {said[:200]!r}")
    return time.perf_counter() - begin


def loaded(port: int, clients: int, seconds: float) -> list[float]:
    """The times of all requests of this many clients. Each sends its next request as soon as it is answered."""
    bodies = [json.dumps({"instances": [text]}).encode() for text in texts()]
    end = time.perf_counter() + seconds

    def client(number: int) -> list[float]:
        connection, times = http.client.HTTPConnection("127.0.0.1", port, timeout=120), []
        while time.perf_counter() < end:
            times.append(ask(connection, bodies[number % len(bodies)]))
            number += clients
        return times

    with ThreadPoolExecutor(clients) as threads:
        return [one for times in threads.map(client, range(clients)) for one in times]


# === Measurements ===


def row_load(made: Callable[[str], tuple[Path, dict[str, float]]], dtype: str) -> str:
    folder, exporting = made(dtype)
    loading = apart(load, folder, exporting["weights"])
    return (
        f"exported in {exporting['seconds']:.1f} s with {exporting['memory']:.2f} x the weights (bar 3), loaded in "
        f"{loading['seconds']:.1f} s (bar 10) with {loading['memory']:.2f} x, first request {loading['first']:.2f} s"
    )


def row_serve(made: Callable[[str], tuple[Path, dict[str, float]]], name: str, seconds: float) -> str:
    folder = str(made(name)[0])
    with served("-c", PEER, folder) if name == "peer" else export_server(folder) as server:
        body = json.dumps({"instances": texts()[:1]}).encode()
        first = ask(http.client.HTTPConnection("127.0.0.1", server.port), body)
        lines = [f"ready in {server.seconds:.1f} s, first request {1000 * first:.0f} ms"]
        for clients in CLIENTS:
            loaded(server.port, clients, min(1, seconds))  # for warming up
            begin = time.perf_counter()
            times = loaded(server.port, clients, seconds)
            rate = len(times) / (time.perf_counter() - begin)
            p50, p99 = np.quantile(times, [0.5, 0.99]) * 1000
            lines.append(f"{clients:4} clients: p50 {p50:.1f} ms, p99 {p99:.1f} ms, {rate:.1f} texts/s")
    return "\n    ".join(lines)


def row_short(made: Callable[[str], tuple[Path, dict[str, float]]]) -> str:
    ours, fixed = apart(short, made("float32")[0])
    ratio = statistics.median(b / a for a, b in zip(ours, fixed, strict=True))
    return f"{1000 * min(ours):.0f} ms, at a fixed 128 {1000 * min(fixed):.0f} ms, ratio {ratio:.2f} (bar 2.5)"


def row_latency(made: Callable[[str], tuple[Path, dict[str, float]]]) -> str:
    times, cosine = apart(latency, [made(dtype)[0] for dtype in ("float32", "bfloat16")])
    full, half = (statistics.median(found) for found in times)
    said = f"float32 {1000 * full:.1f} ms, bfloat16 {1000 * half:.1f} ms, ratio {half / full:.2f} (bar 0.8)"
    return f"{said}, lowest cosine of their vectors {cosine:.5f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base")
    parser.add_argument("--seconds", type=float, default=5, help="seconds for each number of clients")
    parser.add_argument("--only", nargs="*", default=[], help="only measurements whose name contains one of these")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:

        @functools.cache
        def made(dtype: str) -> tuple[Path, dict[str, float]]:
            folder = Path(place) / dtype / "base"
            return folder, apart(export, folder, arguments.size, dtype)

        rows: dict[str, Callable[[], str]] = {}
        for name in (*DTYPES, "peer"):
            if name != "peer":
                rows[f"load {name}"] = functools.partial(row_load, made, name)
            rows[f"serve {name}"] = functools.partial(row_serve, made, name, arguments.seconds)
        rows |= {"short": functools.partial(row_short, made), "latency": functools.partial(row_latency, made)}
        for name, row in rows.items():
            if not arguments.only or any(part in name for part in arguments.only):
                print(f"{arguments.size} {name}: {row()}", flush=True)


if __name__ == "__main__":
    main()
