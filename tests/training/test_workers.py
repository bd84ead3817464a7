"""Workers that do not respond are named, with the command that starts them again."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import keras
import pytest
import tensorflow as tf

from keras_bert.training import processes, watcher, workers
from keras_bert.training.workers import starting_with_workers, waiting_for_workers


@pytest.fixture
def dead(monkeypatch):
    """TF_CONFIG of a worker whose chief listens and whose fellow worker does not; the latter's address."""
    monkeypatch.setattr(workers, "SECONDS_UNTIL_NAMED", 0.05)
    monkeypatch.setattr("sys.argv", ["/bin/keras-bert", "pretrain", "--data", "my data"])
    with socket.create_server(("localhost", 0)) as chief, socket.create_server(("localhost", 0)) as closed:
        alive, dead = (f"localhost:{server.getsockname()[1]}" for server in (chief, closed))
        closed.close()
        cluster = {"chief": [alive], "worker": ["localhost:1", dead]}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
        yield dead


REMEDY = (
    "If a worker has stopped, start the same command again on every worker: keras-bert pretrain --data 'my data'. "
    "The run resumes from its last checkpoint."
)


def test_a_silent_worker_is_named_while_others_wait(dead, caplog):
    with waiting_for_workers(object.__new__(tf.distribute.MultiWorkerMirroredStrategy)):
        while not caplog.messages:
            time.sleep(0.01)
    assert caplog.messages[0] == f"Waiting for worker 1 ({dead}), for 0 seconds. {REMEDY}"


def test_a_worker_that_has_not_started_is_named(dead, capfd):
    """By a program, since TensorFlow lets no thread run while it waits."""
    written = ""
    with starting_with_workers():
        while "\n" not in written:
            written += capfd.readouterr().err
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    end = f"{REMEDY} To end this process, press Ctrl-C or run: kill -9 {os.getpid()}"
    assert written.splitlines()[0] == f"Waiting for worker 1 ({dead}), for 0 seconds. {end}"


def test_the_program_ends_with_its_parent(dead):
    options = json.dumps([{"worker 1": dead}, 0.05, "Start it."])
    command = [sys.executable, "-I", watcher.__file__, options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr.readline() == "Waiting for worker 1, for 0 seconds. Start it.\n"
        program.stdin.close()
        assert program.wait(10) == 0


@pytest.mark.parametrize("address", ["localhost", "localhost:", "localhost:port", "localhost:123456"])
def test_an_address_without_a_port_does_not_answer(address):
    assert watcher.silent({"worker 1": address}) == ["worker 1"]


@pytest.mark.long
def test_ctrl_c_ends_a_worker_that_waits(dead):
    """Also the program that it has started, which would else keep the pipe open."""
    code = "import keras_bert; keras_bert.strategy('multi_worker')"
    command = [sys.executable, "-W", "ignore", "-c", code]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as worker:
        assert any(line.startswith(f"Waiting for worker 1 ({dead})") for line in worker.stderr)
        worker.send_signal(signal.SIGINT)
        worker.communicate(timeout=10)
        assert worker.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (
            tf.errors.InternalError(None, None, "Graph execution error:\n\nDetected at node\n  File x\nreset"),
            r"worker 1 \(localhost:\d+\)\. If",
        ),
        (
            tf.errors.UnavailableError(
                None, None, "/job:chief/replica:0/task:0 failed, says /job:worker/replica:0/task:0"
            ),
            r"chief 0 \(localhost:\d+\), worker 1 \(localhost:\d+\)\. If",
        ),
    ],
)
def test_an_error_by_a_lost_worker_names_it(dead, error, lost):
    with pytest.raises(ConnectionError, match=f"The run has lost {lost}.*Received: "), starting_with_workers():
        raise error


def test_other_errors_stay_as_they_are(dead, monkeypatch):
    with pytest.raises(ZeroDivisionError), starting_with_workers():
        raise ZeroDivisionError
    monkeypatch.setattr(watcher, "answers", lambda address: True)
    with pytest.raises(tf.errors.InvalidArgumentError), starting_with_workers():
        raise tf.errors.InvalidArgumentError(None, None, "bad data at /job:chief/replica:0/task:0")


def test_a_lost_process_of_jax_is_named(dead, monkeypatch):
    monkeypatch.setattr(workers, "other_processes", lambda: {("process", 1): dead})
    strategy = object.__new__(keras.distribution.DataParallel)
    with (
        pytest.raises(ConnectionError, match=r"The run has lost process 1 \(localhost:\d+\)\. If.*Received: Gloo"),
        waiting_for_workers(strategy),
    ):
        raise RuntimeError("Gloo failed")
    monkeypatch.setattr(watcher, "answers", lambda address: True)
    with pytest.raises(OSError, match="no space"), waiting_for_workers(strategy):
        raise OSError("no space")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_process_of_jax_listens_in_the_network_of_the_first_only(monkeypatch, host):
    monkeypatch.setenv("KERAS_DISTRIBUTION_JOB_ADDRESSES", f"{host}:1234,elsewhere:1234")
    family, address = processes.listening_address()
    with socket.create_server((address, 0), family=family) as server:
        assert address == host.strip("[]")
        assert watcher.answers(f"{host}:{server.getsockname()[1]}")
