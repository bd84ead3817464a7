"""Clients that stall, break off or send broken HTTP."""

import contextlib
import json
import logging
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn", reason="pip install 'keras3-bert[serving]'")

REQUEST = b"POST /v1/models/none:predict HTTP/1.1\r\nHost: here\r\n"


@contextlib.contextmanager
def _running(**limits):
    """The port of a server without models, and the function that stops it."""
    from keras_bert.serving.connections import server
    from keras_bert.serving.server import application

    place = socket.create_server(("127.0.0.1", 0))
    running = server(application({}), **limits)
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
    with _running(request_seconds=0.5) as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(sent)
        status, answer = _answer(client)
    assert status == 408
    assert "within 0.5 seconds" in answer["error"]


@pytest.mark.network
def test_clients_that_send_nothing():
    with _running(request_seconds=0.5) as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        assert client.recv(1) == b""


@pytest.mark.network
def test_time_counts_for_each_request():
    """A connection that stays open for longer than a request may take is served."""
    with _running(request_seconds=0.5) as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
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
        (REQUEST + b"Content-Length: -1\r\n\r\n", 400),
    ],
)
def test_broken_http(sent, status):
    with _running() as (port, _), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(sent)
        found, answer = _answer(client)
    assert found == status
    assert "Received: " in answer["error"]


@pytest.mark.network
@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nHost", REQUEST + b"Content-Length: 100\r\n\r\n{"])
def test_a_stalled_client_does_not_keep_the_server_from_ending(sent, caplog):
    with _running(stop_seconds=0.5) as (port, stop), socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(sent)
        time.sleep(0.2)
        logging.getLogger("uvicorn.error").addHandler(caplog.handler)  # uvicorn's loggers do not propagate
        try:
            stop()
        finally:
            logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    cut = REQUEST in sent
    assert ("0.5 seconds after the server was stopped" in caplog.text) == cut
    assert "Traceback" not in caplog.text
