"""hf:// from a server in the test that answers those requests to the HuggingFace Hub that huggingface_hub makes."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from keras_bert.vectors import Pooling
from keras_bert.weights import hugging_face
from tests.weights import small
from tests.weights.old_files import unpacked

pytestmark = pytest.mark.network
COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = {"model.safetensors": 4 << 30, "config.json": 1, "onnx/config.json": 9 << 30, "pytorch_model.bin": 9 << 30}
SCRIPT = """
import sys
import keras_bert
for source in sys.argv[2:]:
    try:
        bert = keras_bert.load(source, cache_dir=sys.argv[1])
        print(bert.config.hidden_size, len(bert.preprocessor.vocabulary), bert.pooling and bert.pooling.pooling)
    except (OSError, ValueError) as error:
        print(error)
"""

WITHOUT_PACKAGE = """
import sys
from pathlib import Path
import keras_bert
from keras_bert.weights import download
download.package = lambda name: None
bert = keras_bert.load("minilm", cache_dir=sys.argv[1])
print(bert.count_params(), len(bert.preprocessor.vocabulary), bert.pooling.pooling)
(path,) = Path(sys.argv[1]).glob("huggingface/*/snapshots/*/model.safetensors")
with open(path, "ab") as file:
    file.write(b"x")
try:
    keras_bert.load("minilm", cache_dir=sys.argv[1], local_only=True)
except ValueError as error:
    print(error)
"""


def _files(folder):
    return sorted(entry for entry in folder.rglob("*") if entry.is_file())


class Handler(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def _answer(self, body):
        folder, name, path = self.server.folder, self.server.repository, self.path.split("?")[0]
        self.server.requests.append(path)
        if path.startswith(f"/api/models/{name}/revision/") or path == f"/api/models/{name}":
            files = [{"rfilename": entry.relative_to(folder).as_posix()} for entry in _files(folder)]
            self._send(json.dumps({"id": name, "sha": COMMIT, "siblings": files}).encode(), body)
        elif path == "/api/models/org/large":
            files = [{"rfilename": name, "size": size} for name, size in LARGE.items()]
            self._send(json.dumps({"id": "org/large", "sha": COMMIT, "siblings": files}).encode(), body)
        elif path.startswith(f"/api/models/{name}/tree/"):
            files = [
                {
                    "type": "file",
                    "path": entry.relative_to(folder).as_posix(),
                    "size": entry.stat().st_size,
                    "oid": COMMIT,
                }
                for entry in _files(folder)
            ]
            self._send(json.dumps(files).encode(), body)
        elif path.startswith(f"/{name}/resolve/") and (folder / path.split("/", 5)[5]).is_file():
            self._send((folder / path.split("/", 5)[5]).read_bytes(), body)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send(self, data, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    hugging_face.write_checkpoint(small.checkpoint("mlm", "nsp"), tmp_path / "model")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.folder, server.repository, server.requests = tmp_path / "model", "org/model", []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def _load(server, cache, *sources, script=SCRIPT, **variables):
    environment = {
        **os.environ,
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(cache),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", script, str(cache), *sources],
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.long
def test_download_then_offline(server, tmp_path):
    """And a repository that is not there, and one above the limit, of which files that are not used do not count."""
    sources = ("hf://org/model", "hf://org/model@main", "hf://org/large", "hf://org/other")
    done = _load(server, tmp_path / "cache", *sources)
    assert done.returncode == 0, done.stderr[-2000:]
    *found, large, missing = done.stdout.splitlines()
    assert found == ["8 24 None", "8 24 None"]
    assert missing.startswith("hf://org/other could not be read")
    assert 'Or use keras_bert.load("minilm")' in missing
    assert large.startswith("The files of hf://org/large are larger than those of any BERT, and nothing was downloaded")
    assert f"Received: {(4 << 30) + 1} bytes" in large
    assert not any(path.startswith("/api/models/org/large/") for path in server.requests)
    server.requests.clear()
    offline = _load(server, tmp_path / "cache", "hf://org/model", KERAS_BERT_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr[-2000:]
    assert offline.stdout.splitlines() == ["8 24 None"]
    assert not server.requests


@pytest.mark.long
def test_minilm_without_its_package(server, minilm, tmp_path):
    """The hub's file has the published sha256; after a change in the cache it is refused."""
    server.folder, server.repository = minilm, "sentence-transformers/all-MiniLM-L6-v2"
    done = _load(server, tmp_path / "cache", script=WITHOUT_PACKAGE)
    assert done.returncode == 0, done.stderr[-2000:]
    found, refused = done.stdout.splitlines()
    assert found == "22713216 30522 mean"
    assert "model.safetensors is not the file that was published" in refused
    assert any(path.endswith("/model.safetensors") for path in server.requests)


def _old_sentence_transformers(folder):
    """All of BERT in a folder of its own, as before sentence-transformers 1.0."""
    shutil.rmtree(folder)
    ours = small.checkpoint()
    ours.pooling = Pooling("cls")
    hugging_face.write_checkpoint(ours, folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "0_Transformer").mkdir()
    for path in list(folder.iterdir()):
        if path.is_file() and path.name != "modules.json":
            path.rename(folder / "0_Transformer" / path.name)
    return folder / "0_Transformer"


OLD = {  # files that are older than safetensors
    "tf": ("transformers_tf/PreTraining", "tf_model*.h5*"),
    "tf sharded": ("transformers_tf/MaskedLM-sharded", "tf_model*.h5*"),
    "flax": ("transformers_flax/PreTraining", "flax_model*"),
}


@pytest.mark.long
@pytest.mark.parametrize("form", ["safetensors", "torch", *OLD])
def test_old_sentence_transformers(server, tmp_path, form):
    """And nothing that is not used is downloaded."""
    torch = pytest.importorskip("torch")
    if form == "flax":
        pytest.importorskip("msgpack", reason="pip install 'keras3-bert[flax]'")
    bert = _old_sentence_transformers(server.folder)
    weights = bert / "model.safetensors"
    wanted = {path.relative_to(server.folder) for path in _files(server.folder) if path != weights}
    torch.save({name: torch.tensor(x) for name, x in load_file(weights).items()}, bert / "pytorch_model.bin")
    used = {weights if form == "safetensors" else bert / "pytorch_model.bin"}
    if form in OLD:
        fixture, pattern = OLD[form]
        theirs = unpacked(fixture.split("/")[0])[0] / fixture.split("/")[1]
        used = {Path(shutil.copy(path, bert)) for path in theirs.glob(pattern)}
        shutil.copy(theirs / "config.json", bert)
        (bert / "pytorch_model.bin").unlink()
    if form != "safetensors":
        weights.unlink()
    wanted |= {path.relative_to(server.folder) for path in used}
    for name in ("onnx/config.json", "openvino/vocab.txt", "checkpoint-5/model.safetensors", "pytorch_model.bin"):
        (server.folder / name).parent.mkdir(exist_ok=True)
        (server.folder / name).write_bytes(b"of no use")
    done = _load(server, tmp_path / "cache", "hf://org/model")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["8 24 cls"]
    (snapshot,) = (tmp_path / "cache").glob("huggingface/*/snapshots/*")
    assert {path.relative_to(snapshot) for path in _files(snapshot)} == wanted
