"""A server on this machine that answers those requests to the HuggingFace Hub that huggingface_hub makes."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = {"model.safetensors": 4 << 30, "config.json": 1, "onnx/config.json": 9 << 30, "pytorch_model.bin": 9 << 30}


@contextmanager
def hub_server(folder: Path, repository: str = "org/model") -> Iterator[ThreadingHTTPServer]:
    """The server, whose `requests` are the paths that were asked for; org/large is a repository of sizes only.

    About org/login it answers what a proxy would.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.folder, server.repository, server.requests = folder, repository, []
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def files_of(folder):
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
            files = [{"rfilename": entry.relative_to(folder).as_posix()} for entry in files_of(folder)]
            self._send(json.dumps({"id": name, "sha": COMMIT, "siblings": files}).encode(), body)
        elif path == "/api/models/org/large":
            files = [{"rfilename": name, "size": size} for name, size in LARGE.items()]
            self._send(json.dumps({"id": "org/large", "sha": COMMIT, "siblings": files}).encode(), body)
        elif path.startswith("/api/models/org/login"):
            self._send(b"<html>Log in to this network.</html>", body)
        elif path.startswith(f"/api/models/{name}/tree/"):
            files = [
                {
                    "type": "file",
                    "path": entry.relative_to(folder).as_posix(),
                    "size": entry.stat().st_size,
                    "oid": COMMIT,
                }
                for entry in files_of(folder)
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
