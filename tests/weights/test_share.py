"""`convert --push` to a server in the test that answers the requests of huggingface_hub as the Hub does."""

import base64
import dataclasses
import json
import signal
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import huggingface_hub
import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from keras_bert.vectors import Pooling
from keras_bert.weights import our_folder
from keras_bert.weights.load import read
from keras_bert.weights.share import USES, model_card
from keras_bert_cli import app, convert
from tests.weights import small

pytestmark = [
    pytest.mark.network,
    pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload:DeprecationWarning"),  # huggingface_hub does not
]


class Hub(BaseHTTPRequestHandler):
    """Repositories as a dict of files; large files are uploaded first, then named in the commit by their SHA-256."""

    def do_HEAD(self):
        path = self.path.partition("/resolve/main/")[2]
        known = path in self.server.files
        self._answer({}, 200 if known else 404, **({} if known else {"X-Error-Code": "EntryNotFound"}))

    def do_PUT(self):
        self.server.large[self.path.split("/")[-1]] = self._body()
        self._answer({})

    def do_POST(self):
        body, url = self._body(), f"http://127.0.0.1:{self.server.server_port}"
        if self.headers["Authorization"] != "Bearer right":
            self._answer({"error": "Invalid credentials"}, 401)
        elif self.path == "/api/repos/create":
            self.server.created.append(json.loads(body))
            self._answer({"url": f"{url}/org/name"})
        elif self.path == "/api/validate-yaml":  # of the card
            self._answer({"errors": [], "warnings": []})
        elif self.path == "/api/models/org/name/preupload/main":
            modes = [(file["path"], file["path"].endswith(".safetensors")) for file in json.loads(body)["files"]]
            files = [{"path": p, "uploadMode": "lfs" if x else "regular", "shouldIgnore": False} for p, x in modes]
            self._answer({"files": files})
        elif self.path == "/org/name.git/info/lfs/objects/batch":
            objects = [
                {**file, "actions": {"upload": {"href": f"{url}/upload/{file['oid']}"}}}
                for file in json.loads(body)["objects"]
            ]
            self._answer({"transfer": "basic", "objects": objects})
        elif self.path == "/api/models/org/name/commit/main":
            for item in map(json.loads, body.splitlines()):
                value = item["value"]
                if item["key"] == "file":
                    self.server.files[value["path"]] = base64.b64decode(value["content"])
                elif item["key"] == "lfsFile":
                    self.server.files[value["path"]] = self.server.large[value["oid"]]
            self._answer({"success": True, "commitOid": "0" * 40, "commitUrl": f"{url}/org/name/commit/{'0' * 40}"})
        else:
            self._answer({}, 404)

    def do_GET(self):
        self._answer({"id": "org/name", "sha": "0" * 40, "siblings": []})

    def _body(self):
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def _answer(self, what, status=200, **headers):
        data = json.dumps(what).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(data), "ETag": '"e"', "X-Repo-Commit": "0" * 40, **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files, server.large, server.created = {}, {}, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # its servers are not the Hub's own
    monkeypatch.setenv("HF_TOKEN", "right")
    yield server
    server.shutdown()
    server.server_close()


def _push(*words):
    return CliRunner().invoke(app, ["convert", *map(str, words)], catch_exceptions=False)


@pytest.fixture
def run(tmp_path):
    """A folder with a classifier, and with the files of a run that have its scores."""
    ours = small.checkpoint("classifier", num_hidden_layers=1)
    ours.heads["classifier"] = dataclasses.replace(ours.heads["classifier"], labels=("bad", "fair", "good"))
    our_folder.write_checkpoint(ours, tmp_path / "run")
    (tmp_path / "run" / "metrics.json").write_text('{"valid": {"accuracy": 0.9012, "f1_macro": 0.875}}')
    (tmp_path / "run" / "settings.json").write_text('{"valid": "/data/dev.tsv"}')
    return tmp_path / "run"


@pytest.mark.long
def test_push(hub, run, tmp_path):
    result = _push(run, "--to", "hf", "--push", "org/name", "--language", "ko", "--language", "en", "--private")
    assert f"pushed\thttp://127.0.0.1:{hub.server_port}/org/name" in result.output
    assert [(repo["organization"], repo["name"], repo["visibility"]) for repo in hub.created] == [
        ("org", "name", "private")
    ]

    for name, data in hub.files.items():
        (tmp_path / "theirs").mkdir(exist_ok=True)
        (tmp_path / "theirs" / name).write_bytes(data)
    small.assert_same(read(run), read(tmp_path / "theirs"))

    card = huggingface_hub.ModelCard.load(tmp_path / "theirs" / "README.md")
    assert card.data.pipeline_tag == "text-classification"
    assert card.data.language == ["ko", "en"]
    scores = {(score.dataset_name, score.metric_type): score.metric_value for score in card.data.eval_results}
    assert scores == {("dev.tsv", "accuracy"): 0.9012, ("dev.tsv", "f1_macro"): 0.875}
    assert "Labels: `bad`, `fair`, `good`." in card.text
    assert "| accuracy | 0.9012 |" in card.text
    assert 'keras_bert.TextClassifier.load("hf://org/name")' in card.text


@pytest.mark.usefixtures("sigterm_is_ignored")
def test_sigterm_leaves_no_model(hub, run, tmp_path, monkeypatch):
    def terminated(source, to, folder, **_):
        folder.mkdir()
        signal.raise_signal(signal.SIGTERM)

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("keras_bert.weights.convert.convert", terminated)
    done = _push(run, "--to", "hf", "--push", "org/name")
    assert done.exit_code == 128 + signal.SIGTERM
    assert not any((tmp_path / "temporary").iterdir())


def test_a_card_on_the_hub_is_kept_and_a_folder_can_be_named(hub, run, tmp_path):
    hub.files["README.md"] = b"written by hand"
    _push(run, tmp_path / "kept", "--to", "hf", "--push", "org/name")
    assert hub.files["README.md"] == b"written by hand"
    small.assert_same(read(run), read(tmp_path / "kept"))


def test_the_scores_are_of_what_was_converted(hub, run, tmp_path, monkeypatch):
    """`convert base` converts the release, even if there is a folder ./base."""
    folder = run.rename(tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    for source in ("./base", "base"):
        hub.files.clear()
        convert._push(folder, "org/name", read(folder), source, ["en"], False)
        assert (b"0.9012" in hub.files["README.md"]) == (source == "./base")


@pytest.mark.parametrize("head", [*USES, "pooling", None])
def test_every_kind_of_model_has_a_card(head):
    checkpoint = small.checkpoint(*([head] if head in USES else []))
    checkpoint.pooling = Pooling("mean", True, 12) if head == "pooling" else None
    card = huggingface_hub.ModelCard(model_card(checkpoint, "org/name"))
    assert card.data.pipeline_tag
    assert 'load("hf://org/name")' in card.text


@pytest.mark.parametrize(
    ("words", "token", "said"),
    [
        (("--push", "org/name/more"), "right", "must be org/name"),
        (("--push", "org/name"), None, "cannot be uploaded without a token"),
        (("--push", "org/name"), "wrong", "org/name could not be uploaded. .*hf auth login.* Received: .*401"),
    ],
)
def test_errors(hub, run, words, token, said, monkeypatch, tmp_path):
    monkeypatch.delenv("HF_TOKEN") if token is None else monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises((ValueError, OSError), match=said):
        _push(run, "--to", "hf", *words)
    assert hub.files == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--to", "google", "--push", "org/name"), "Add --to hf"), (("--to", "hf"), "DIRECTORY is missing")],
)
def test_usage(run, words, said):
    result = _push(run, *words)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
