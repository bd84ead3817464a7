"""The server in the test's own process."""

import contextlib
import http.client
import json
import socket
import threading
import time
from unittest.mock import patch


@contextlib.contextmanager
def running(application, port=0):
    """Runs an application in a thread; yields the address and the port."""
    from keras_bert.serving import connections

    place = socket.create_server(("127.0.0.1", port))
    with patch.object(connections, "STOP_SECONDS", 1.0):
        one = connections.server(application)
        thread = threading.Thread(target=one.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            while not one.started:
                time.sleep(0.01)
            yield place.getsockname()
        finally:
            one.should_exit = True
            thread.join(20)
            place.close()


@contextlib.contextmanager
def serving(models, name, **limits):
    """Sends requests to `predict` of a model to a server of this process."""
    from keras_bert.serving.server import application

    with running(application(models, **limits)) as address:

        def post(body):
            with contextlib.closing(http.client.HTTPConnection(*address, timeout=60)) as connection:
                connection.request("POST", f"/v1/models/{name}:predict", json.dumps(body))
                answer = connection.getresponse()
                return answer.status, json.load(answer)

        yield post
