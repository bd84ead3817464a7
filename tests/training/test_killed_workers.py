"""A worker that is killed: the other names it within 30 seconds, with the command to start again, and both resume."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import pytest

import keras_bert
from keras_bert.pretraining import write_examples
from keras_bert.training.checkpoint_folder import latest_checkpoint
from keras_bert.training.metrics_log import read_metrics
from keras_bert.weights import our_folder
from tests.pretraining.corpus import VOCABULARY, corpus
from tests.pretraining.small_source import write_source
from tests.soak import IN_SOAK
from tests.subprocesses import free_port

logger = logging.getLogger(__name__)

SECONDS, STEPS = 30, 150
OPTIONS = {"steps": STEPS, "batch-size": 8, "checkpoint-every": 10, "steps-per-loop": 5, "dtype": "float32"}


def environments(backend):
    """Of two workers on this machine."""
    ports = [free_port(), free_port()]
    for index in range(2):
        own = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        if backend == "jax":
            own |= {
                "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"localhost:{ports[0]}",
                "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
                "KERAS_DISTRIBUTION_PROCESS_ID": str(index),
            }
        else:
            cluster = {"worker": [f"localhost:{port}" for port in ports]}
            own["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        yield own


def started(folder, log, environment):
    """A run of the command, whose log goes into a file."""
    words = ["pretrain", "--data", folder / "data", "--from", folder / "source", "--output", folder / "run"]
    words += ["--strategy", "multi_worker", *(word for name, value in OPTIONS.items() for word in (f"--{name}", value))]
    line = [sys.executable, "-W", "ignore", "-m", "keras_bert_cli", *map(str, words)]
    with log.open("w") as file:
        return subprocess.Popen(line, env=environment, stdout=file, stderr=file)


def wait(until, seconds):
    """The seconds until something is so."""
    began = time.monotonic()
    while not until():
        assert time.monotonic() - began < seconds
        time.sleep(0.1)
    return time.monotonic() - began


@IN_SOAK
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_killed_worker_is_named(tmp_path, backend, victim):
    files = corpus(tmp_path, files=1, documents=30)
    write_examples(files, tmp_path / "data", vocabulary=VOCABULARY, seq_length=16, workers=1)
    write_source(tmp_path / "source", VOCABULARY, positions=16)
    logs = [tmp_path / f"{name}.log" for name in ("0", "1", "0-again", "1-again")]
    run = tmp_path / "run"
    workers = [started(tmp_path, *each) for each in zip(logs[:2], environments(backend), strict=True)]
    try:
        wait(lambda: latest_checkpoint(f"{run}/checkpoints"), 300)
        os.kill(workers[victim].pid, signal.SIGKILL)
        named = f"{'process' if backend == 'jax' else 'worker'} {victim} ("
        log = logs[1 - victim]
        seconds = wait(lambda: named in log.read_text() and "keras-bert pretrain --data" in log.read_text(), SECONDS)
        assert workers[1 - victim].wait(400) != 0
        assert not (run / our_folder.WEIGHTS).exists()
        logger.info("%s %d is named after %.1f seconds", backend, victim, seconds)

        again = list(environments(backend))
        workers.append(started(tmp_path, logs[2], again[0]))
        wait(lambda: "Waiting for" in logs[2].read_text(), 120)  # for the one that returns late
        workers.append(started(tmp_path, logs[3], again[1]))
        for worker, log in zip(workers[2:], logs[2:], strict=True):
            assert worker.wait(300) == 0, log.read_text()
        assert "Resuming from" in logs[2].read_text()
    finally:
        for worker in workers:
            worker.kill()
    assert read_metrics(f"{run}/metrics.jsonl")[-1]["step"] == STEPS
    assert keras_bert.Pretrainer.load(run).bert.config.hidden_size == 8
