"""hf:// from a server of the test's own."""

import json
import shutil
import warnings
from pathlib import Path

import huggingface_hub
import pytest
from safetensors.numpy import load_file

import keras_bert
from keras_bert.vectors import Pooling
from keras_bert.weights import download, hugging_face, hugging_face_download
from tests.hub_server import files_of, hub_server
from tests.subprocesses import one_process, python
from tests.weights import small
from tests.weights.old_files import unpacked

pytestmark = pytest.mark.network
OFFLINE = """
import sys
import warnings
from pathlib import Path
warnings.simplefilter("error", FutureWarning)
from tests.weights.test_hugging_face_download import load
print(load("hf://org/model", Path(sys.argv[1])))
"""


def load(source, cache):
    """What is loaded, or why not."""
    try:
        with warnings.catch_warnings(action="error", category=FutureWarning):
            bert = keras_bert.load(source, cache_dir=cache)
    except (OSError, ValueError) as error:
        return str(error)
    return f"{bert.config.hidden_size} {len(bert.preprocessor.vocabulary)} {bert.pooling and bert.pooling.pooling}"


def load_without_package(cache):
    """The file has the published sha256; after a change in the cache it is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(download, "package", lambda name: None)
        bert = keras_bert.load("minilm", cache_dir=cache)
        (path,) = cache.glob("huggingface/*/snapshots/*/model.safetensors")
        with open(path, "ab") as file:
            file.write(b"x")
        with pytest.raises(ValueError, match=r"model\.safetensors is not the file that was published"):
            keras_bert.load("minilm", cache_dir=cache, local_only=True)
    return bert.count_params(), len(bert.preprocessor.vocabulary), bert.pooling.pooling


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with hub_server(tmp_path_factory.mktemp("hub")) as server:
        yield server


@pytest.fixture
def server(hub, tmp_path):
    hub.folder, hub.repository = tmp_path / "model", "org/model"
    hugging_face.write_checkpoint(small.checkpoint("mlm", "nsp"), hub.folder)
    hub.requests.clear()
    return hub


def _variables(hub, home):
    """huggingface_hub reads them when it is imported."""
    return {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(home),
        "KERAS_BACKEND": "jax",  # which starts sooner than TensorFlow
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }


@pytest.fixture(scope="module")
def call(hub, tmp_path_factory):
    """Calls a function in a process for which the server is the hub."""
    with one_process(**_variables(hub, tmp_path_factory.mktemp("home"))) as call:
        yield call


@pytest.mark.long
def test_download_then_offline(server, call, tmp_path):
    """And a repository that is not there, and one above the limit, of which files that are not used do not count.

    And the answer of a proxy.
    """
    sources = ("hf://org/model", "hf://org/model@main", "hf://org/large", "hf://org/login", "hf://org/other")
    *found, large, login, missing = (call(load, source, tmp_path / "cache") for source in sources)
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
    assert call(load, "hf://org/model", tmp_path / "cache") == "8 24 None"
    assert [name for name in names if (repository / name).exists()] == []
    server.requests.clear()
    variables = _variables(server, tmp_path / "home")
    assert python(OFFLINE, str(tmp_path / "cache"), KERAS_BERT_OFFLINE="1", **variables) == "8 24 None"
    assert not server.requests


@pytest.mark.long
def test_minilm_without_its_package(server, call, minilm, tmp_path):
    server.folder, server.repository = minilm, "sentence-transformers/all-MiniLM-L6-v2"
    assert call(load_without_package, tmp_path / "cache") == (22713216, 30522, "mean")
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
def test_old_sentence_transformers(server, call, tmp_path, form):
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
    assert call(load, "hf://org/model", tmp_path / "cache") == "8 24 cls"
    (snapshot,) = (tmp_path / "cache").glob("huggingface/*/snapshots/*")
    assert {path.relative_to(snapshot) for path in files_of(snapshot)} == wanted
