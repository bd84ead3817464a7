"""The clients that an export has in `serving/`, against `keras-bert serve` and a gRPC service."""

import ast
import http.server
import json
import re
import shlex
import shutil
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.serving.write_kit import write_kit
from tests.serving.in_process import running

COLUMNS = {
    "bert": ("text",),
    "classifier": ("text",),
    "regressor": ("text", "text_pair"),
    "choice": ("prompt", "choices"),
    "tagger": ("text",),
    "answerer": ("question", "context"),
}


@pytest.fixture(scope="module")
def ports(exports):
    """Of `keras-bert serve`'s application and of a gRPC service, which know every kind by its name."""
    pytest.importorskip("uvicorn")
    grpc = pytest.importorskip("grpc")
    apis = pytest.importorskip("tensorflow_serving.apis.prediction_service_pb2_grpc")
    from tensorflow_serving.apis import predict_pb2

    from keras_bert.serving.server import application

    class Service(apis.PredictionServiceServicer):
        def Predict(self, request, context):
            assert request.model_spec.version_label == "stable"
            _, _, served = exports[request.model_spec.name]
            inputs = {name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
            response = predict_pb2.PredictResponse()
            for name, tensor in served.signatures[request.model_spec.signature_name](**inputs).items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(tensor))
            return response

    models = {name: {1: served} for name, (_, _, served) in exports.items()}
    service = grpc.server(ThreadPoolExecutor(1))
    apis.add_PredictionServiceServicer_to_server(Service(), service)
    port = service.add_insecure_port("127.0.0.1:0")
    service.start()
    with running(application(models)) as (_, rest):
        yield {"rest": rest, "grpc": port}
    service.stop(None)


@pytest.mark.network
@pytest.mark.parametrize("name", COLUMNS)
def test_clients(exports, ports, name, tmp_path, monkeypatch, capsys):
    """Run with the words of the kit's README, they print what the SavedModel answers."""
    _, folder, served = exports[name]
    (tmp_path / "text" / "1").mkdir(parents=True)
    shutil.copy(folder / "text" / "1" / "saved_model.pb", tmp_path / "text" / "1")
    write_kit(tmp_path, name)
    line = re.search(r"rest_client.py (.+)", (tmp_path / "serving" / "README.md").read_text())[1]
    words = shlex.split(line)
    values = [words[0], words[1:]] if name == "choice" else words
    columns = {key: [value] for key, value in zip(COLUMNS[name], values, strict=True)}
    expected = served.signatures["serving_default"](**{key: tf.constant(value) for key, value in columns.items()})

    def run(kind):
        path = tmp_path / "serving" / f"{kind}_client.py"
        source = re.sub(r"localhost:\d+", f"127.0.0.1:{ports[kind]}", path.read_text())
        assert f"{path.name} {line} " in source.splitlines()[0]
        monkeypatch.setattr(sys, "argv", [path.name, *words])
        client = {"__name__": "__main__"}
        exec(compile(source, path, "exec"), client)
        return client, capsys.readouterr().out

    rest, said = run("rest")
    _assert_row(json.loads(said), expected)
    grpc, said = run("grpc")
    assert "b'" not in said  # text is printed as text: b'\xec\x84\x9c' cannot be read
    outputs = dict(line.split(" ", 1) for line in said.splitlines())
    _assert_row({key: ast.literal_eval(rows)[0] for key, rows in outputs.items()}, expected)
    with urllib.request.urlopen(f"http://127.0.0.1:{ports['rest']}/v1/models/{name}/metadata", timeout=60) as answer:
        described = json.load(answer)["metadata"]["signature_def"]["signature_def"]
    assert set(described["serving_default"]["outputs"]) == set(expected)
    with pytest.raises(ValueError, match="must have"):
        rest["predict"](texts=["w1"])
    if name == "bert":
        pair = {"text": ["w1"], "text_pair": ["w2"]}
        found = rest["predict"]("pair", **pair)[0]["embedding"]
        np.testing.assert_allclose(grpc["predict"]("pair", **pair)["embedding"], [found], atol=1e-6)


@pytest.mark.network
@pytest.mark.parametrize(
    ("status", "body", "missing", "said"),
    [
        (502, b"<h1>Bad Gateway</h1>", 0, "not one of TF Serving.*HTTP status 502.*Bad Gateway"),
        (502, b'{"message": "no upstream"}', 0, "not one of TF Serving.*HTTP status 502.*no upstream"),
        (503, b"[]", 0, "not one of TF Serving.*HTTP status 503"),
        (200, b"<h1>Log in</h1>", 0, "not one of TF Serving.*HTTP status 200.*Log in"),
        (400, b'{"error": "the reason"}', 0, "^the reason$"),
        (200, b'{"predic', 90, "No server answers.*IncompleteRead"),
    ],
)
def test_rest_client_behind_a_proxy(exports, status, body, missing, said, tmp_path):
    """It says what came back if a proxy answers in place of the server, or the answer breaks off."""
    _, folder, _ = exports["classifier"]
    (tmp_path / "text" / "1").mkdir(parents=True)
    shutil.copy(folder / "text" / "1" / "saved_model.pb", tmp_path / "text" / "1")
    write_kit(tmp_path, "classifier")

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) + missing))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.handle_request)
        thread.start()
        source = (tmp_path / "serving" / "rest_client.py").read_text()
        client = {"__name__": "client"}
        exec(source.replace("localhost:8501", f"127.0.0.1:{proxy.server_port}"), client)
        with pytest.raises((ValueError, ConnectionError), match=said):
            client["predict"](text=["w1"])
        thread.join()


def _assert_row(found, expected):
    """The same names, and for each the only row."""
    assert set(found) == set(expected)
    for key, tensor in expected.items():
        row, wanted = np.ravel(np.array(found[key], object)).tolist(), np.ravel(tensor[0].numpy()).tolist()
        if tensor.dtype == tf.float32:
            np.testing.assert_allclose(row, wanted, atol=1e-6)
        else:
            assert [one.encode() if isinstance(one, str) else one for one in row] == wanted
