"""The attention maps and the page of `keras-bert play`, and of `export --attention` with `serve --no-page`."""

import signal
import tempfile
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import keras_bert
from keras_bert.serving import connections, served_version
from keras_bert.weights import our_folder
from keras_bert_cli import app
from keras_bert_cli.serve import bound
from tests.serving.as_process import ask, listening, started
from tests.serving.exported import NAME
from tests.weights import small

ATTENTION = {"signature_name": "attention", "instances": [{"text": "w1 w3, nope"}]}


def _assert_attention(status, answer, folder):
    """The maps that the server sends are those of Python, but for their rounding."""
    assert status == 200
    (found,) = answer["predictions"]
    expected = keras_bert.load(folder).attention(ATTENTION["instances"][0]["text"])
    assert found["piece"] == expected.pieces[0]
    assert np.shape(found["attention"]) == expected.maps[:, 0].shape  # [L, A, S, S]
    assert np.abs(np.array(found["attention"]) - expected.maps[:, 0]).max() <= 1 / 2048 + 1e-6


def test_attention_without_a_page(kit, monkeypatch):
    """GET / is refused, and the API answers."""
    served = []
    monkeypatch.setattr(connections, "server", lambda one: SimpleNamespace(run=lambda sockets: served.append(one)))
    command = ["serve", str(kit), "--no-page", "--port", "0"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert f"/v1/models/{NAME}\tversions 1" in done.output
    assert "in a browser" not in done.output
    with TestClient(served[0]) as client:
        page = client.get("/")
        assert page.status_code == 404
        assert page.json()["error"].startswith("Malformed request: GET /")
        answer = client.post(f"/v1/models/{NAME}:predict", json=ATTENTION)
        _assert_attention(answer.status_code, answer.json(), kit.parent / "model")


def test_a_signal_while_the_models_are_loaded(tmp_path, monkeypatch):
    """What has been made by then is removed."""

    export, work = tmp_path / "export", tmp_path / "work"
    version = export / "text" / "1"
    version.mkdir(parents=True)
    (version / "saved_model.pb").touch()
    work.mkdir()

    def terminated(*_, **__):
        with tempfile.TemporaryDirectory(dir=work):
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(served_version, "find_models", terminated)
    before = signal.getsignal(signal.SIGTERM)
    done = CliRunner().invoke(app, ["serve", str(export), "--port", "0"])
    assert done.exit_code == 128 + signal.SIGTERM
    assert not any(work.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before


def test_two_servers_that_load_at_once():
    """Both have the port, until one of them listens."""

    def both(port, one):
        with bound("127.0.0.1", port) as other:
            one.listen()
            other.listen()

    with bound("127.0.0.1", 0) as one:
        port = one.getsockname()[1]
        with pytest.raises(OSError, match=rf"could not listen: .*Give another port.*--port {port}"):
            both(port, one)


@pytest.mark.long
@pytest.mark.network
def test_play(tmp_path):
    """The page and the attention maps of a folder. SIGTERM ends it, and nothing of its export is left."""
    folder, temporary = tmp_path / "encoder", tmp_path / "temporary"
    temporary.mkdir()
    our_folder.write_checkpoint(small.checkpoint(num_hidden_layers=1), folder)
    with started("play", folder, TMPDIR=str(temporary)) as process:
        server = listening(process)
        assert [path.name[:16] for path in temporary.glob("keras-bert*")] == ["keras-bert-play-"]
        with urllib.request.urlopen(f"{server.url}/", timeout=60) as page:
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert '"name": "encoder"' in page.read().decode()
        _assert_attention(*ask(server.url, "/v1/models/encoder:predict", ATTENTION), folder)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 128 + signal.SIGTERM
        assert "Traceback" not in server.stderr.read()
    assert not list(temporary.glob("keras-bert*"))
