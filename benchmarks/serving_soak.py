"""Send thousands of requests of random sizes, some of them bad, to `keras-bert serve`, many at a time.

    python benchmarks/serving_soak.py [--requests 10000] [--clients 64]        some minutes, with a small random model
    python benchmarks/serving_soak.py --minutes 10                             for ten minutes

Every answer is compared with calling the SavedModel directly. Every bad request must get a 4xx with a reason. Slow
clients are connected all the time, and still are when SIGTERM ends the server, which must not take longer than 30
seconds. The server's memory must not grow over the second half. Otherwise this fails. Prints the requests and the
memory.
"""

import argparse
import base64
import contextlib
import http.client
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from running_server import export_server, resident
from slow_clients import SlowClients

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
STOP = 30.0  # seconds from SIGTERM to the end of the process
GROWTH = 0.02  # growth of the memory from the third quarter of the requests to the last
Columns = dict[str, list]


class Case(NamedTuple):
    """One request. `signature` and `columns` give the expected answer; a bad request has none."""

    kind: str
    path: str
    body: bytes
    signature: str = ""
    columns: Columns = {}  # noqa: RUF012  never changed


# === Requests ===


def case(rng: random.Random, name: str, words: list[str], vocab_size: int) -> Case:
    """A good request, or with probability 0.3 a bad one."""
    path = f"/v1/models/{name}"
    if rng.random() < 0.3:
        kind, (place, body) = rng.choice(list(_bad(rng, path, words, vocab_size).items()))
        return Case(kind, place, body)
    signature = rng.choice(("serving_default", "serving_default", "pair", "logits", "classify"))
    rows = rng.choice((1, 1, 1, 2, 3, 7, 16, 64))
    if signature == "logits":
        length = rng.choice((1, 2, 5, 8))
        columns = {key: _ids(rng, rows, length, vocab_size if key == INPUTS[0] else 2) for key in INPUTS}
    else:
        names = ("text", "text_pair") if signature == "pair" else ("text",)
        columns = {key: [_text(rng, words, long=rows < 3) for _ in range(rows)] for key in names}
    data: dict[str, Any] = {"signature_name": signature}
    if signature == "classify":
        data["examples"] = [{"text": text} for text in columns["text"]]
        return Case("classify", f"{path}:classify", json.dumps(data).encode(), signature, columns)
    if rng.random() < 0.5:
        data["inputs"] = columns
    else:
        data["instances"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    place = rng.choice(("", "/versions/1", "/labels/stable"))
    return Case(signature, f"{path}{place}:predict", json.dumps(data).encode(), signature, columns)


def _text(rng: random.Random, words: list[str], long: bool = True) -> str:
    """Known and unknown words, from none to many, and sometimes a very long text."""
    count = 20_000 if long and rng.random() < 0.01 else rng.choice((0, 1, 2, 5, 10, 40))
    odd = ("é", "Ünï", "漢字", "한국어", "👩‍👩‍👧", "\x00", "\u200b", "x" * 300, "!?", " \n")
    return " ".join(rng.choice(words) if rng.random() < 0.8 else rng.choice(odd) for _ in range(count))


def _ids(rng: random.Random, rows: int, length: int, limit: int) -> list[list[int]]:
    return [[rng.randrange(limit) for _ in range(length)] for _ in range(rows)]


def _bad(rng: random.Random, model: str, words: list[str], vocab_size: int) -> dict[str, tuple[str, bytes]]:
    """Bad requests by kind: path and body."""

    def predict(**data: Any) -> tuple[str, bytes]:
        return f"{model}:predict", json.dumps(data).encode()

    text, ids = _text(rng, words), {key: [[1, 1, 1], [1, 1, 1]] for key in INPUTS}
    whole = json.dumps({"instances": [text]}).encode()
    return {
        "random bytes": (f"{model}:predict", rng.randbytes(rng.choice((0, 1, 100, 10_000)))),
        "half of a body": (f"{model}:predict", whole[: rng.randrange(len(whole))]),
        "nested deeply": (f"{model}:predict", b"[" * 50_000),
        "not UTF-8": (f"{model}:predict", b'{"instances": ["\xff\xfe"]}'),
        "half of a pair": (f"{model}:predict", b'{"instances": ["\\ud800"]}'),
        "no object": (f"{model}:predict", rng.choice((b"[]", b"1", b"null", b'"text"'))),
        "wrong key": predict(instances=[{"texts": text}]),
        "extra key": predict(instances=[text], more=1),
        "wrong type": predict(instances=[rng.choice((1, None, True, 1.5, [text], {"a": 1}))]),
        "wrong rank": predict(inputs={"text": text}),
        "no rows": predict(instances=[]),
        "too many rows": predict(instances=["w"] * 257),
        "uneven columns": predict(signature_name="pair", inputs={"text": [text], "text_pair": []}),
        "uneven rows": predict(signature_name="logits", inputs={**ids, INPUTS[0]: [[1], [1, 2]]}),
        "uneven inputs": predict(signature_name="logits", inputs={**ids, INPUTS[0]: [[1], [1]]}),
        "ids out of range": predict(signature_name="logits", inputs={**ids, INPUTS[0]: [[vocab_size] * 3] * 2}),
        "ids below zero": predict(signature_name="logits", inputs={**ids, INPUTS[0]: [[-1] * 3] * 2}),
        "large numbers": predict(signature_name="logits", inputs={**ids, INPUTS[0]: [[2**40] * 3] * 2}),
        "invalid base64": predict(instances=[{"b64": "*"}]),
        "no Example": predict(signature_name="classify", instances=[{"b64": base64.b64encode(b"\xffno").decode()}]),
        "no such signature": predict(instances=[text], signature_name=rng.choice(("other", 1, None, []))),
        "no feature": (f"{model}:classify", b'{"signature_name": "classify", "examples": [{"texts": "a"}]}'),
        "too many pieces": predict(instances=["w1 " * 150_000]),
        "large body": (f"{model}:predict", b'{"instances": ["' + b"a" * (9 << 20) + b'"]}'),
        "no such verb": (f"{model}:regress", whole),
        "no such version": (f"{model}/versions/99:predict", whole),
        "no such label": (f"{model}/labels/other:predict", whole),
        "no such model": ("/v1/models/other:predict", whole),
        "no such path": ("/" + "".join(rng.choices("abc/%?.", k=rng.randrange(1, 50))), whole),
    }


# === Answers ===


def wrong(case: Case, status: int, answer: Any, run: Callable[[str, Columns], dict[str, Any]]) -> str | None:
    """What is wrong with an answer, or None."""
    if not case.signature:
        explained = isinstance(answer, dict) and set(answer) == {"error"} and str(answer["error"]).strip()
        return None if 400 <= status < 500 and explained else f"{case.kind}: {status} {str(answer)[:200]}"
    if status != 200:
        return f"{case.kind}: {status} {str(answer)[:200]}"
    found = _columns(answer)
    for name, values in run(case.signature, case.columns).items():
        if not _same(found.get(name, found.get("")), values):
            return f"{case.kind}: {name} is {str(found.get(name))[:200]}, not {str(values)[:200]}"
    return None


def _columns(answer: dict[str, Any]) -> Columns:
    """Values by name, from any form of answer; the name is "" for a single output."""
    if "results" in answer:
        rows = answer["results"]
        return {"classes": [[a for a, _ in row] for row in rows], "scores": [[b for _, b in row] for row in rows]}
    if "outputs" in answer:
        outputs = answer["outputs"]
        return outputs if isinstance(outputs, dict) else {"": outputs}
    rows = answer["predictions"]
    return {key: [row[key] for row in rows] for key in rows[0]} if isinstance(rows[0], dict) else {"": rows}


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        alike = isinstance(found, list) and len(found) == len(expected)
        return alike and all(_same(a, b) for a, b in zip(found, expected, strict=True))
    return abs(found - expected) <= 1e-5 if isinstance(expected, float) else found == expected


def direct(folder: Path) -> Callable[[str, Columns], dict[str, Any]]:
    """What the SavedModel itself answers, as plain lists."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers its ops

    from keras_bert.serving.predict_requests import plain

    loaded = tf.saved_model.load(str(folder))

    def run(signature: str, columns: Columns) -> dict[str, Any]:
        if signature == "classify":
            found = run("serving_default", columns)
            return {"classes": found["labels"], "scores": found["scores"]}
        kind = tf.int32 if signature == "logits" else tf.string
        inputs = {name: tf.constant(values, kind) for name, values in columns.items()}
        return {name: plain(tensor.numpy()) for name, tensor in loaded.signatures[signature](**inputs).items()}

    return run


# === The run ===


class Soak(NamedTuple):
    """The number of requests of each kind, the wrong answers, and the server's memory in MB over time."""

    kinds: Counter
    wrong: list[str]
    memory: list[float]

    @property
    def growth(self) -> float:
        """The growth of the memory from the third quarter of the requests to the last, as a fraction."""
        quarter = len(self.memory) // 4
        third, last = (statistics.median(self.memory[i * quarter :][:quarter]) for i in (2, 3))
        return last / third - 1


def soak(
    port: int,
    pid: int,
    folder: Path,
    vocabulary: list[str],
    *,
    requests: int,
    clients: int,
    seed: int,
    minutes: float = 0,
) -> Soak:
    """Send this many requests, or for so many minutes, to the server with this process id, which serves the export."""
    run = direct(folder / "text" / "1")
    end = time.monotonic() + 60 * minutes
    numbers = takewhile(lambda _: time.monotonic() < end, count()) if minutes else iter(range(requests))
    memory: list[tuple[float, float]] = []
    next_number = threading.Lock()

    def client(_: int) -> list[tuple[str, str | None]]:
        done = []
        while True:
            with next_number:
                number = next(numbers, None)
                if not memory or time.monotonic() > memory[-1][0] + 0.1:
                    memory.append((time.monotonic(), resident(pid)))
            if number is None:
                return done
            asked = case(random.Random(f"{seed} {number}"), folder.name, vocabulary, len(vocabulary))
            status, answer = _ask(port, asked)
            done.append(("503", None) if status == 503 else (asked.kind, wrong(asked, status, answer, run)))

    with ThreadPoolExecutor(clients) as threads:
        done = [one for some in threads.map(client, range(clients)) for one in some]
    kinds = Counter(kind for kind, _ in done)
    return Soak(kinds, [fault for _, fault in done if fault], [size for _, size in memory])


def _ask(port: int, asked: Case) -> tuple[int, Any]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
        try:
            connection.request("POST", asked.path, asked.body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0, repr(error)


def model() -> Any:
    """A small random classifier of words w0 ... w99."""
    import keras_bert

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = keras_bert.Vocabulary(pieces + [f"w{i}" for i in range(100)])
    config = keras_bert.BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    bert = keras_bert.Bert(config, keras_bert.Preprocessor(vocabulary, seq_length=64))
    task = keras_bert.TextClassifier(bert, labels=("bad", "good", "좋아요"))
    kernel = task.get_layer(task.heads[0]).kernel
    kernel.assign(np.random.default_rng(0).standard_normal(kernel.shape))  # no two labels with the same score
    return task


def stop(process: subprocess.Popen) -> float:
    """Send SIGTERM; the seconds until the process ends."""
    begin = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    process.wait(120)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=0, help="instead of a number of requests")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--slow", type=int, default=8, help="slow clients, which are there all the time")
    parser.add_argument("--seed", type=int, default=0)
    arguments = vars(parser.parse_args())
    import keras_bert

    slow_count = arguments.pop("slow")
    with tempfile.TemporaryDirectory() as made:
        folder, task = Path(made) / "small", model()
        keras_bert.export(task, folder)
        with export_server(folder) as (port, process, _), SlowClients(port, folder.name, slow_count) as slow:
            begin = time.perf_counter()
            found = soak(port, process.pid, folder, list(task.bert.preprocessor.vocabulary.tokens), **arguments)
            seconds = time.perf_counter() - begin
            alive = process.poll() is None
            slow.server_is_ending = True
            stopped = stop(process)
    for kind, number in sorted(found.kinds.items()):
        print(f"{number:6} {kind}")
    wrong = found.wrong + slow.wrong
    print(f"{sum(found.kinds.values())} requests in {seconds:.0f} s, {len(wrong)} answered wrongly")
    print(f"slow clients: {', '.join(f'{number} {kind}' for kind, number in sorted(slow.kinds.items()))}")
    print(f"memory {found.memory[0]:.0f} MB at first, {found.memory[-1]:.0f} MB at last, growth {found.growth:+.1%}")
    print(f"SIGTERM ended the server in {stopped:.1f} s, with {slow_count} slow clients connected")
    for fault in wrong[:20]:
        print("WRONG", fault)
    sys.exit(not alive or bool(wrong) or found.growth > GROWTH or stopped > STOP)


if __name__ == "__main__":
    main()
