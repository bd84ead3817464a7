"""`keras-bert serve`: its answers and refusals, and its end."""

import base64
import contextlib
import gzip
import http.client
import importlib.util
import json
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from keras_bert_cli import app
from tests.serving.as_process import ask, listening, started
from tests.serving.exported import LABELS, NAME, TEXTS
from tests.soak import IN_SOAK
from tests.weights import small

pytest.importorskip("tensorflow_serving.apis", reason="pip install 'keras3-bert[serving]'")
SOAK = Path(__file__).parents[2] / "benchmarks" / "serving_soak.py"


@pytest.fixture(scope="module")
def server(kit):
    with started("serve", kit) as process:
        yield listening(process)


def _ask(server, path, data=None, method=None):
    return ask(server.url, path, data, method)


PREDICT = f"/v1/models/{NAME}:predict"


def _assert_rows(rows, expected, texts):
    answer = expected(texts)
    assert [row["label"] for row in rows] == [label.decode() for label in answer["label"]]
    assert np.abs(np.array([row["scores"] for row in rows]) - answer["scores"]).max() <= 1e-5
    assert [row["truncated"] for row in rows] == answer["truncated"].tolist()


@pytest.mark.network
@pytest.mark.parametrize("form", ["values", "rows", "base64"])
def test_rows(server, expected, form):
    encoded = [{"b64": base64.b64encode(text.encode()).decode()} for text in TEXTS]
    instances = {"values": TEXTS, "rows": [{"text": text} for text in TEXTS], "base64": encoded}[form]
    for place in ("", "/versions/1", "/labels/stable", "/labels/canary"):
        status, answer = _ask(server, f"/v1/models/{NAME}{place}:predict", {"instances": instances})
        assert status == 200
        _assert_rows(answer["predictions"], expected, TEXTS)


@pytest.mark.network
def test_columns_and_signatures(server, expected):
    status, answer = _ask(server, PREDICT, {"inputs": {"text": TEXTS}})
    assert status == 200
    assert answer["outputs"]["labels"] == [list(LABELS)] * len(TEXTS)
    pairs = {"text": TEXTS, "text_pair": TEXTS}
    assert _ask(server, PREDICT, {"signature_name": "pair", "inputs": pairs})[0] == 200
    ids = {name: np.ones((2, 5), int).tolist() for name in ("input_word_ids", "input_mask", "input_type_ids")}
    status, answer = _ask(server, PREDICT, {"signature_name": "logits", "inputs": ids})
    assert status == 200
    assert np.shape(answer["outputs"]) == (2, 3)


CLASSIFY = f"/v1/models/{NAME}:classify"


@pytest.mark.network
def test_classify(server, expected):
    encoded = {"b64": base64.b64encode(TEXTS[0].encode()).decode()}
    body = {"signature_name": "classify", "examples": [{"text": [text], "other": [1, 2.5]} for text in TEXTS]}
    body["examples"][0]["text"] = encoded
    answer = expected(TEXTS)
    for place in ("", "/versions/1", "/labels/canary"):
        status, found = _ask(server, f"/v1/models/{NAME}{place}:classify", body)
        assert status == 200
        assert [[label for label, _ in row] for row in found["results"]] == [list(LABELS)] * len(TEXTS)
        scores = [[score for _, score in row] for row in found["results"]]
        assert np.abs(np.array(scores) - answer["scores"]).max() <= 1e-5
    pairs = {"signature_name": "classify_pair", "context": {"text_pair": "w1"}, "examples": [{"text": "w2"}]}
    assert _ask(server, CLASSIFY, pairs)[0] == 200


@pytest.mark.network
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"examples": "w1"}, "a list of objects"),
        ({"examples": ["w1"]}, "a list of objects"),
        ({"examples": []}, "must have at least one row"),
        ({"context": 1}, "`context` an object"),
        ({"context": {"text": "w1"}}, "['text'] in both"),
        ({"examples": [{"text": None}]}, "only strings, or only numbers"),
        ({"examples": [{"text": ["w1", 1]}]}, "only strings, or only numbers"),
        ({"examples": [{"text": 2**63}]}, "only strings, or only numbers"),
        ({"examples": [{"text": 1}]}, "Data types don't match"),
        ({"examples": [{"texts": "w1"}]}, "is required but could not be found"),
        ({"examples": [{"text": "\ud800"}]}, "half of a surrogate pair"),
        ({"examples": [{"\ud800": "w1"}]}, "half of a surrogate pair"),
        ({"signature_name": "serving_default"}, "one of ['classify', 'classify_pair']"),
        ({"instances": ["w1"]}, "instances"),
    ],
)
def test_bad_examples(server, change, reason):
    body = {"signature_name": "classify", "examples": [{"text": "w1"}], **change}
    status, answer = _ask(server, CLASSIFY, body)
    assert status == 400
    assert reason in answer["error"]


@pytest.mark.network
def test_classify_of_a_model_that_is_no_classifier(server):
    status, answer = _ask(server, f"/v1/models/{NAME}-preprocess:classify", {"examples": [{"text": "w1"}]})
    assert status == 400
    assert answer["error"].startswith("Only classifiers answer :classify, and this model is not one. Use :predict")


@pytest.mark.network
def test_status_and_metadata(server):
    status, answer = _ask(server, f"/v1/models/{NAME}")
    assert status == 200
    assert [one["version"] for one in answer["model_version_status"]] == ["1"]
    status, answer = _ask(server, f"/v1/models/{NAME}/metadata")
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["text"]["dtype"] == "DT_STRING"
    assert signature["outputs"]["scores"]["tensor_shape"]["dim"][0]["size"] == "-1"


IDS = {"input_word_ids": [[1, 2]], "input_mask": [[1, 1]], "input_type_ids": [[0, 0]]}
GARBAGE = [
    (b"{", "must be JSON"),
    (b'{"instances": [' + b"1" * 5000 + b"]}", "integer string conversion: value has 5000 digits"),
    (b"\xff\xfe", "must be JSON"),
    (b'{"instances": ["\xff"]}', "must be JSON"),
    (b"[" * 100_000, "not nested so deeply. Received: 100000 bytes"),
    (b'{"instances": ["w1"], "instances": ["w2"]}', "a name twice. Give each name once. Received: 'instances'"),
    (b'{"instances": [{"text": "w1", "text": "w2"}]}', "Received: 'text'"),
    (b'{"instances": ["w1\nw2"]}', r"Write a line break in a string as \n, and a tab as \t. Received: Invalid control"),
    ([], "must be an object"),
    ({}, "either `instances` or `inputs`"),
    ({"instances": ["w1"], "inputs": ["w1"]}, "either `instances` or `inputs`"),
    ({"instances": ["w1"], "extra": 1}, "extra"),
    ({"instances": "w1"}, "list of rows"),
    ({"instances": []}, "must have at least one row"),
    ({"instances": ["w1"] * 257}, "at most 256 rows"),
    ({"instances": [1]}, "Row 0: `text` must hold strings. Received: int 1"),
    ({"instances": ["w1", 2]}, "Row 1: `text` must hold strings. Received: int 2"),
    ({"inputs": {"text": ["w1", 2]}}, "Row 1: `text` must hold strings"),
    ({"instances": [None]}, "`text` must hold strings"),
    ({"instances": [["w1"]]}, "`text` must hold strings"),
    ({"instances": ["\ud800"]}, "half of a surrogate pair"),
    ({"instances": [{"b64": "*"}]}, "b64"),
    ({"instances": [{"b64": "é"}]}, "b64"),
    ({"instances": [{"texts": "w1"}]}, r"['text']. Received: ['texts'] in row 0"),
    ({"inputs": {"texts": ["w1"]}}, "takes the inputs ['text']"),
    ({"inputs": "w1"}, "`text` has a str where a list is needed. Put it in brackets."),
    ({"instances": ["w1"], "signature_name": "other"}, "`signature_name` must be one of"),
    ({"instances": ["w1"], "signature_name": []}, "`signature_name` must be one of"),
    ({"signature_name": "pair", "inputs": {"text": ["w1"], "text_pair": []}}, "same number of rows"),
    ({"signature_name": "logits", "inputs": {**IDS, "input_mask": [[1]]}}, "the same shape"),
    ({"signature_name": "logits", "inputs": {**IDS, "input_mask": [[1], [1, 1]]}}, "the same length"),
    ({"signature_name": "logits", "inputs": {key: [[]] for key in IDS}}, "must have at least one id, that of [CLS]"),
    ({"signature_name": "logits", "inputs": {**IDS, "input_word_ids": [[1.5, 2]]}}, "integers of 32 bits"),
    ({"signature_name": "logits", "inputs": {**IDS, "input_word_ids": [[2**40, 2]]}}, "integers of 32 bits"),
    ({"signature_name": "logits", "inputs": {**IDS, "input_word_ids": [["\ud800", 2]]}}, r"Received: str \ud800"),
    ({"signature_name": "logits", "inputs": {**IDS, "input_word_ids": [[24, 2]]}}, "is not in [0, 24)"),
]


@pytest.mark.network
@pytest.mark.parametrize(("body", "reason"), GARBAGE)
def test_bad_requests(server, body, reason):
    status, answer = _ask(server, PREDICT, body)
    assert status == 400
    assert reason in answer["error"]


@pytest.mark.network
@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/v1/models", "GET", 404),
        ("/v1/models/other:predict", "POST", 404),
        (f"/v1/models/{NAME}/versions/2:predict", "POST", 404),
        (f"/v1/models/{NAME}/versions/{'1' * 5000}", "GET", 404),
        (f"/v1/models/{NAME}/labels/other", "GET", 404),
        (f"/v1/models/{NAME}%0a", "GET", 404),
        (PREDICT, "GET", 405),
        (f"/v1/models/{NAME}", "POST", 405),
        (f"/v1/models/{NAME}:regress", "POST", 400),
    ],
)
def test_bad_paths(server, path, method, status):
    found, answer = _ask(server, path, b"{}" if method == "POST" else None, method)
    assert found == status
    assert answer["error"]


@pytest.mark.network
def test_large_bodies(server):
    status, answer = _ask(server, PREDICT, {"instances": ["w1 " * 130_000 + " " * 600_000]})  # a megabyte
    assert status == 200
    assert answer["predictions"][0]["truncated"]
    for words, reason in ((300_000, "at most 262144 pieces"), (3_000_000, "at most 2097152 bytes")):
        status, answer = _ask(server, PREDICT, {"instances": ["w1 " * words]})
        assert status == 413
        assert reason in answer["error"]


@pytest.mark.network
def test_many_at_once(server, expected):
    """Answers go to those who asked, though they ran in one batch with others' garbage."""
    rng = np.random.default_rng(0)
    bad_ids = {"signature_name": "logits", "inputs": {**IDS, "input_word_ids": [[24, 2]]}}

    def one(number):
        if number % 5 == 0:
            return _ask(server, PREDICT, bad_ids)[0] == 400
        texts = [" ".join(f"w{i}" for i in rng.integers(0, 18, 1 + number % 7)) for _ in range(1 + number % 3)]
        status, answer = _ask(server, PREDICT, {"instances": texts})
        assert status == 200
        _assert_rows(answer["predictions"], expected, texts)
        return True

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(one, range(200)))


@pytest.fixture
def soak_of(monkeypatch):
    """benchmarks/serving_soak.py as a module."""
    monkeypatch.syspath_prepend(SOAK.parent)
    spec = importlib.util.spec_from_file_location("serving_soak", SOAK)
    module = sys.modules["serving_soak"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.network
def test_soak(server, kit, soak_of):
    """The first two hundred requests of benchmarks/serving_soak.py, which asks ten thousand."""
    words = list(small.VOCABULARY.tokens)
    found = soak_of.soak(server.port, server.pid, kit, words, requests=200, clients=64, seed=0)
    assert not found.wrong, found.wrong[:5]
    assert len(found.kinds) > 20
    assert sum(found.kinds.values()) == 200
    assert found.growth < 0.25  # so early the first batches of each shape still add to it
    assert server.poll() is None


@pytest.mark.network
@pytest.mark.long
@IN_SOAK
def test_soak_with_slow_clients(kit, soak_of):
    """Twenty seconds of what runs for ten minutes with --minutes 10: a real process, slow clients and SIGTERM."""
    words = list(small.VOCABULARY.tokens)
    with soak_of.export_server(kit) as (port, process, _), soak_of.SlowClients(port, kit.name, 8) as slow:
        found = soak_of.soak(port, process.pid, kit, words, requests=0, clients=64, seed=1, minutes=1 / 3)
        slow.server_is_ending = True
        assert soak_of.stop(process) < soak_of.STOP
    assert not found.wrong + slow.wrong, (found.wrong + slow.wrong)[:5]
    assert sum(found.kinds.values()) > 64
    assert slow.kinds["leaves"]


@pytest.mark.network
@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("HEAD", f"/v1/models/{NAME}/metadata", 200, None),
        ("HEAD", PREDICT, 405, "POST"),
        ("OPTIONS", PREDICT, 405, "POST"),
        ("TRACE", PREDICT, 405, "POST"),
        ("DELETE", f"/v1/models/{NAME}", 405, "GET, HEAD"),
    ],
)
def test_methods(server, method, path, status, allowed):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Allow"]) == (status, allowed)
        said = answer.read()
    assert not said if method == "HEAD" else f"Received: {method}" in json.loads(said)["error"]


@pytest.mark.network
def test_a_compressed_body(server):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("POST", PREDICT, gzip.compress(b'{"instances": ["w1"]}'), {"Content-Encoding": "gzip"})
        answer = connection.getresponse()
        assert answer.status == 415
        assert "without compression. Received: Content-Encoding: gzip" in json.loads(answer.read())["error"]


@pytest.mark.network
def test_clients_that_leave(server):
    """In the midst of a body; that nobody is told of it in a traceback is seen when the server ends."""
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(f"POST {PREDICT} HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{{".encode())
        time.sleep(0.1)
    assert _ask(server, PREDICT, {"instances": ["w1"]})[0] == 200


def test_busy_port(tmp_path):
    """Refused before models are loaded, and before anything is set that other tests' processes would inherit."""
    (tmp_path / "text" / "1").mkdir(parents=True)
    (tmp_path / "text" / "1" / "saved_model.pb").touch()
    environment = dict(os.environ)
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(OSError, match=r"in use.*Give another port"):
        CliRunner().invoke(app, ["serve", str(tmp_path), "--port", str(other.getsockname()[1])], catch_exceptions=False)
    assert dict(os.environ) == environment


def test_answers_are_sent_at_once():
    """asyncio turns off Nagle's algorithm, which holds an answer back for 40 ms, for what is known to be TCP."""
    from keras_bert_cli.serve import bound

    with bound("127.0.0.1", 0) as place:
        assert place.proto == socket.IPPROTO_TCP


def test_nothing_to_serve(tmp_path):
    from keras_bert.serving.served_version import find_models

    with pytest.raises(FileNotFoundError, match="keras-bert export"):
        find_models(tmp_path)
    with pytest.raises(FileNotFoundError, match="nope does not exist"):
        find_models(tmp_path / "nope")
    (tmp_path / "colon").mkdir()
    (tmp_path / "colon" / "film:2").mkdir()
    with pytest.raises(ValueError, match=r"film:2 has a colon in its name.*Rename the folder"):
        find_models(tmp_path / "colon" / "film:2")
    (tmp_path / "text" / "1" / "variables").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"text/1 .* its saved_model\.pb is missing.*Received: variables"):
        find_models(tmp_path)
    for content in (b"", b"\x08\x01\x12\xff"):
        (tmp_path / "text" / "1" / "saved_model.pb").write_bytes(content)
        with pytest.raises(ValueError, match="export it again"):
            find_models(tmp_path)


@pytest.mark.network
def test_graceful_stop(server):
    """The last of the tests that ask the server: it ends it."""
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(_ask, server, PREDICT, {"instances": ["w1 " * 20_000] * 6})
        time.sleep(0.3)
        server.send_signal(signal.SIGTERM)
        assert asked.result()[0] == 200
        assert server.wait(60) in (0, -signal.SIGTERM)
        assert "Traceback" not in server.stderr.read()
