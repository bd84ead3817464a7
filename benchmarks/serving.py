"""Serving BERT-base's vectors of texts: exports in float32, bfloat16 and int8, beside transformers, over loopback.

    python benchmarks/serving.py [--size base] [--seconds 5]        about ten minutes

Prints for each the seconds to load, those of the first request, and at 1, 8 and 64 clients p50 and p99 in milliseconds
and texts a second; then, inside this process, 64 short sentences by the text signature beside the same encoder at a
fixed 128. Texts: ../shared/data where it is there, else sentences of this file. `keras-bert serve` and the peer (torch,
the mean of the last layer) run on the same server, uvicorn. Weights are random, which changes no time.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
import urllib.request
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
CLIENTS = (1, 8, 64)
DTYPES = ("float32", "bfloat16", "int8")

PEER = """
import sys, torch, transformers, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.concurrency import run_in_threadpool
folder, port = sys.argv[1:]
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

async def ready(request):
    return JSONResponse({})

routes = [Route("/v1/models/base:predict", predict, methods=["POST"]), Route("/v1/models/base", ready)]
uvicorn.run(Starlette(routes=routes), port=int(port), access_log=False, log_level="warning")
"""


def make(folder: Path, size: str) -> None:
    """Exports of one random model, and the same as transformers reads it."""
    import keras_bert
    from keras_bert.weights import hugging_face
    from keras_bert.weights.checkpoint import Checkpoint

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [mark + chr(code) for code in range(33, 127) for mark in ("", "##") if not chr(code).isupper()]
    words = sorted({word for text in texts() for word in text.lower().split() if word.isalpha()} - set(letters))
    known = [*pieces, *letters, *words][:30522]
    vocabulary = keras_bert.Vocabulary(known + [f"[unused{i}]" for i in range(30522 - len(known))])
    bert = keras_bert.Bert(keras_bert.BertConfig.from_size(size), keras_bert.Preprocessor(vocabulary))
    hugging_face.write_checkpoint(Checkpoint.of(bert), folder / "peer")
    for dtype in DTYPES:
        keras_bert.export(bert, folder / dtype / "base", dtype=dtype)


def texts() -> list[str]:
    """Real sentences, of real lengths."""
    file = Path(__file__).resolve().parents[2] / "shared" / "data" / "en" / "sst2.dev.txt"
    if file.is_file():
        return [line.partition(" ")[2] for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in (__doc__ or "").splitlines() if line.strip()]


def start(command: list[str], port: int) -> tuple[subprocess.Popen, float]:
    """The server and the seconds until it answered."""
    begin = time.perf_counter()
    environment = {**os.environ, "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"}
    process = subprocess.Popen([sys.executable, "-W", "ignore", *command], stderr=subprocess.DEVNULL, env=environment)
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models/base", timeout=1)
        except OSError:
            time.sleep(0.05)
        else:
            return process, time.perf_counter() - begin
    raise RuntimeError(f"the server ended: {command}")


def ask(port: int, text: str) -> float:
    """The seconds of one request."""
    body = json.dumps({"instances": [text]}).encode()
    begin = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models/base:predict", body, timeout=120) as answer:
        json.load(answer)
    return time.perf_counter() - begin


def load(port: int, clients: int, seconds: float) -> list[float]:
    """The times of all requests of so many clients, who each ask again as soon as they are answered."""
    times: list[float] = []
    lines, end = texts(), time.perf_counter() + seconds

    def client(number: int) -> None:
        while time.perf_counter() < end:
            times.append(ask(port, lines[number % len(lines)]))
            number += clients

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def in_process(folder: Path) -> None:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers its ops

    root = folder / "float32" / "base"
    text, encoder, preprocess = (
        tf.saved_model.load(str(root / part / "1")) for part in ("text", "encoder", "preprocess")
    )
    batch = tf.constant([line for line in texts() if len(line.split()) < 12][:64])

    def fixed() -> None:
        packed = preprocess(batch)
        encoder.signatures["serving_default"](**{**packed, "input_mask": tf.ones_like(packed["input_mask"])})

    seconds = {}
    for name, run in {"text": lambda: text.signatures["serving_default"](text=batch), "fixed 128": fixed}.items():
        run()
        seconds[name] = min(timeit.repeat(run, number=1, repeat=4))
    print(f"64 short sentences: {seconds}, ratio {seconds['fixed 128'] / seconds['text']:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--servers", nargs="*", default=[*DTYPES, "peer"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make(folder, arguments.size)
        for name in arguments.servers:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            ours = ["-m", "keras_bert.cli", "serve", str(folder / name / "base"), "--port", str(port)]
            process, seconds = start(["-c", PEER, str(folder / "peer"), str(port)] if name == "peer" else ours, port)
            print(f"{name}: load {seconds:.1f} s, first request {1000 * ask(port, texts()[0]):.0f} ms")
            for clients in CLIENTS:
                times = load(port, clients, arguments.seconds)
                p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[-1]
                rate = len(times) / arguments.seconds
                print(f"  {clients:2} clients: p50 {1000 * p50:.1f} ms, p99 {1000 * p99:.1f} ms, {rate:.1f} texts/s")
            process.kill()
            process.wait()
        in_process(folder)


if __name__ == "__main__":
    main()
