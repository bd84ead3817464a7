"""hf:// from a server of the test's own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from safetensors.numpy import load_file

from keras_bert.vectors import Pooling
from keras_bert.weights import hugging_face, hugging_face_download
from tests.hub_server import files_of, hub_server
from tests.weights import small
from tests.weights.old_files import unpacked

pytestmark = pytest.mark.network
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


@pytest.fixture
def server(tmp_path):
    hugging_face.write_checkpoint(small.checkpoint("mlm", "nsp"), tmp_path / "model")
    with hub_server(tmp_path / "model") as server:
        yield server


def _load(server, cache, *sources, script=SCRIPT, **variables):
    environment = {
        **os.environ,
        "HF_ENDPOINT": server.url,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(cache),
        "KERAS_BACKEND": "jax",  # which starts sooner than TensorFlow
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
    """And a repository that is not there, and one above the limit, of which files that are not used do not count.

    And the answer of a proxy.
    """
    sources = ("hf://org/model", "hf://org/model@main", "hf://org/large", "hf://org/login", "hf://org/other")
    done = _load(server, tmp_path / "cache", *sources)
    assert done.returncode == 0, done.stderr[-2000:]
    *found, large, login, missing = done.stdout.splitlines()
    assert found == ["8 24 None", "8 24 None"]
    assert missing.startswith("hf://org/other could not be read")
    assert 'Or use keras_bert.load("minilm")' in missing
    assert large.startswith("The files of hf://org/large are larger than those of any BERT, and nothing was downloaded")
    assert f"Received: {(4 << 30) + 1} bytes" in large
    assert login.startswith("hf://org/login could not be read: the answer is not JSON")
    assert not any(path.startswith("/api/models/org/large/") for path in server.requests)
    # What a killed process leaves is removed.
    repository = tmp_path / "cache" / "huggingface" / "models--org--model"
    names = ("refs/main.0123abcd.tmp", "trees/tmpa_b1c2d3.tmp", "blobs/0123.4567abcd.incomplete")
    for name in names:
        (repository / name).write_text("{")
    assert _load(server, tmp_path / "cache", "hf://org/model").returncode == 0
    assert [name for name in names if (repository / name).exists()] == []
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


def test_a_connection_that_breaks(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise huggingface_hub.errors.HTTPError("peer closed connection\nwithout a word")

    monkeypatch.setattr(hugging_face_download, "offline", lambda: False)
    monkeypatch.setattr(hugging_face_download, "_published_sizes", lambda *_: {})
    monkeypatch.setattr(huggingface_hub, "snapshot_download", broken)
    with pytest.raises(OSError, match=r"hf://org/model could not be downloaded.*: HTTPError: peer closed connection$"):
        hugging_face_download.snapshot("org/model", tmp_path)


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
    wanted = {path.relative_to(server.folder) for path in files_of(server.folder) if path != weights}
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
    assert {path.relative_to(snapshot) for path in files_of(snapshot)} == wanted
