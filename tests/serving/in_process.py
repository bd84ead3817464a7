"""The server in the test's own process."""

import contextlib
import http.client
import json
import socket
import threading
import time


@contextlib.contextmanager
def serving(models, name, **limits):
    """Sends requests to `predict` of a model to a server of this process."""
    from keras_bert.serving.connections import server
    from keras_bert.serving.server import application

    place = socket.create_server(("127.0.0.1", 0))
    running = server(application(models, **limits))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [place]})
    thread.start()

    def post(body):
        with contextlib.closing(http.client.HTTPConnection(*place.getsockname(), timeout=60)) as connection:
            connection.request("POST", f"/v1/models/{name}:predict", json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.load(answer)

    try:
        while not running.started:
            time.sleep(0.01)
        yield post
    finally:
        running.should_exit = True
        thread.join(20)
