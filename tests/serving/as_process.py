"""Commands that serve, in a process of their own."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request


@contextlib.contextmanager
def started(*words, **environment):
    """`keras-bert` with these words and a free port, in a process that ends with the block."""
    command = [sys.executable, "-W", "ignore", "-m", "keras_bert_cli", *map(str, words), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def listening(process):
    """The process, with its `url` and `port`, once it listens."""
    said = []
    while not said or not said[-1].startswith("http"):
        said.append(process.stderr.readline())
        assert said[-1], "".join(said)
    process.url = said[-1].partition("/v1")[0]
    process.port = int(process.url.rpartition(":")[2])
    while process.poll() is None:  # it has told its address and listens in a moment
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", process.port)):
            break
    return process


def ask(url, path, data=None, method=None):
    """The status and the object that comes back."""
    body = data if isinstance(data, bytes | None) else json.dumps(data).encode()
    request = urllib.request.Request(f"{url}{path}", body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
