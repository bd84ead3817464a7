"""Clients that stall, break off or send broken HTTP."""

import contextlib
import json
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn", reason="pip install 'keras3-bert[serving]'")

REQUEST = b"POST /v1/models/none:predict HTTP/1.1\r\nHost: here\r\n"


@contextlib.contextmanager
def _running(answering=None, **seconds):
    """The port of a server, by default of one without models, and the function that stops it."""
    from keras_bert.serving import connections
    from keras_bert.serving.server import application

    place = socket.create_server(("127.0.0.1", 0))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in seconds.items():
            patch.setattr(connections, name, value)
        running = connections.server(answering or application({}))
        running.config.load()
        thread = threading.Thread(target=running.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            while not running.started:
                time.sleep(0.01)

            def stop():
                running.should_exit = True
                thread.join(20)
                assert not thread.is_alive()

            yield place.getsockname()[1], stop
        finally:
            running.should_exit = running.force_exit = True
            thread.join(20)


def _answer(client):
    """The status and the object of an answer after which the server closes the connection."""
    said = b"".join(iter(lambda: client.recv(1 << 16), b""))
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"application/json" in head.lower()
    return int(head.split()[1]), json.loads(body)


@pytest.mark.network
@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/models/none:predict HTTP/1.1\r\nHost: he",
        REQUEST + b"Content-Length: 100\r\n\r\n{",
        REQUEST + b"Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n{}\r\n0\r\n\r\n",  # more than 2^64 bytes
    ],
)
def test_requests_that_never_end(sent):
    with _running(REQUEST_SECONDS=0.5) as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(sent)
        status, answer = _answer(client)
    assert status == 408
    assert "within 0.5 seconds" in answer["error"]


@pytest.mark.network
def test_a_second_request_that_never_ends():
    """Its beginning comes with the first one."""
    first, second = REQUEST + b"Content-Length: 2\r\n\r\n{}", REQUEST + b"Content-Length: 100\r\n\r\n{"
    with _running(REQUEST_SECONDS=0.5) as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(first + second)
        said = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert [part[:3] for part in said.split(b"HTTP/1.1 ")[1:]] == [b"404", b"408"]


@pytest.mark.network
@pytest.mark.parametrize("sent", [b"Content-Length: 100\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nnone\r\n"])
def test_a_refused_head_has_no_body(sent, capsys):
    with _running(REQUEST_SECONDS=0.5) as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(b"HEAD / HTTP/1.1\r\nHost: here\r\n" + sent)
        said = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert said.endswith(b"\r\n\r\n")
    assert "Exception in ASGI" not in capsys.readouterr().err


@pytest.mark.network
def test_a_client_that_does_not_read_its_answer(capsys):
    async def answering(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b" " * (32 << 20)})

    with _running(answering, REQUEST_SECONDS=0.5) as (port, _), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        time.sleep(1.5)
        read = 0
        with contextlib.suppress(ConnectionError):
            while part := client.recv(1 << 16):
                read += len(part)
        assert read < 32 << 20
    assert "did not read its answer within 0.5 seconds" in capsys.readouterr().err


@pytest.mark.network
def test_clients_that_send_nothing():
    with _running(REQUEST_SECONDS=0.5) as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        assert client.recv(1) == b""


@pytest.mark.network
def test_time_counts_for_each_request():
    """A connection that stays open for longer than a request may take is served."""
    with _running(REQUEST_SECONDS=0.5) as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        for _ in range(4):
            client.sendall(REQUEST + b"Content-Length: 2\r\n\r\n{}")
            said = b""
            while not said.endswith(b"}"):
                said += client.recv(1 << 16)
            assert b"404" in said
            time.sleep(0.2)


@pytest.mark.network
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"garbage\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET / HTTP/1.1\r\nHost: here\r\nOther: " + b"x" * 100_000, 431),
        (REQUEST + b"Transfer-Encoding: chunked\r\n\r\nnone\r\n", 400),
        (REQUEST + b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n", 400),
        (REQUEST + b"Content-Length: -1\r\n\r\n", 400),
    ],
)
def test_broken_http(sent, status, capsys):
    with _running() as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(sent)
        found, answer = _answer(client)
    assert found == status
    assert "Received: " in answer["error"]
    assert "Exception in ASGI" not in capsys.readouterr().err


@pytest.mark.network
def test_a_refused_client_may_finish_sending():
    with _running() as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(b"garbage\r\n\r\n")
        time.sleep(0.2)
        for _ in range(8):
            client.sendall(b"x" * 1_000_000)
        assert _answer(client)[0] == 400


@pytest.mark.network
def test_a_refused_client_does_not_send_for_ever():
    with _running(REFUSED_SECONDS=0.5) as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(b"garbage\r\n\r\n")
        assert _answer(client)[0] == 400
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < began + 20:
                client.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() < began + 10


@pytest.mark.network
@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nHost", REQUEST + b"Content-Length: 100\r\n\r\n{"])
def test_a_stalled_client_does_not_keep_the_server_from_ending(sent, capsys):
    with _running(STOP_SECONDS=0.5) as (port, stop), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(sent)
        time.sleep(0.2)
        stop()
    cut = REQUEST in sent
    log = capsys.readouterr().err
    assert ("0.5 seconds after the server was stopped" in log) == cut
    assert "Traceback" not in log
