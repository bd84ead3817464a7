"""The servers of the downloads: one with one of Google's zips, and the hub of tests/hub_server.py."""

import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from keras_bert.weights.download import FILES
from tests.faults.trial import Host
from tests.hub_server import hub_server


@contextmanager
def host_with_servers(folder: Path) -> Iterator[Host]:
    """A host whose commands find both servers, with its files in `folder`, which exists and is empty."""
    with zip_server(1 << 16) as url, hub_server(folder / "prepared" / "inputs" / "hub") as hub:
        host = Host(
            folder, KERAS_BERT_MIRROR=url, HF_ENDPOINT=hub.url, HF_HOME=str(folder / "home"), HF_HUB_DISABLE_XET="1"
        )
        yield host
        host.close()


@contextmanager
def zip_server(size: int) -> Iterator[str]:
    """The URL to set KERAS_BERT_MIRROR to. size: of each file in the zip."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for number, name in enumerate(FILES):
            opened.writestr(zipfile.ZipInfo(f"model/{name}"), bytes([number]) * size)
    data = buffer.getvalue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            start = int((self.headers.get("Range") or "bytes=0-")[len("bytes=") : -1])
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("ETag", '"one"')
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            self.wfile.write(data[start:])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
