"""Requests that come while a batch runs."""

import asyncio
import re
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.serving.batcher import Batcher, BatchThreads
from keras_bert.serving.predict_requests import BadRequest
from keras_bert.serving.served_version import ServedVersion, batcher_for


def test_each_gets_its_own():
    faults = []

    def run(columns):
        time.sleep(0.01)
        return columns

    async def ask(waiting, number):
        await asyncio.sleep(0.002 * number)
        return (await waiting({"x": np.array([number])}))["x"].tolist()

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, fault: faults.append(fault))
        waiting = Batcher(run, BatchThreads(), max_rows=4, wait=0.001)
        return await asyncio.gather(*(ask(waiting, number) for number in range(40)))

    assert asyncio.run(main()) == [[number] for number in range(40)]
    assert not faults


def test_only_what_comes_beside_others_waits():
    """A request alone starts at once. While it runs, two more wait for each other, and run together."""
    sizes, held = [], threading.Event()

    def run(columns):
        sizes.append(len(columns["x"]))
        if len(sizes) == 1:
            held.wait(30)
        else:
            held.set()
        return columns

    async def main():
        waiting = Batcher(run, BatchThreads(), wait=0.2)
        first = asyncio.create_task(waiting({"x": np.array([0])}))
        while not sizes:
            await asyncio.sleep(0.001)
        later = [asyncio.create_task(waiting({"x": np.array([1])}))]
        await asyncio.sleep(0.02)
        later.append(asyncio.create_task(waiting({"x": np.array([2])})))
        return [(await one)["x"].tolist() for one in (first, *later)]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [[0], [1], [2]]
    assert sizes == [1, 2]


def test_one_after_another_never_waits():
    async def main():
        waiting = Batcher(lambda columns: columns, BatchThreads(), wait=3600)
        for number in range(3):
            assert (await waiting({"x": np.array([number])}))["x"].tolist() == [number]
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_large_request_runs_in_slices():
    """All 256 rows at once would take gigabytes if they are long."""
    sizes = []

    def run(columns):
        """Each row is as long as its number, and padded to the longest of the batch, as an export pads."""
        rows = columns["x"].tolist()
        sizes.append(len(rows))
        texts = np.array([[b"a"] * row + [b""] * (max(rows) - row) for row in rows], object)
        return {"row": columns["x"], "text": texts, "place": np.array([[len(text) for text in row] for row in texts])}

    async def main():
        return await Batcher(run, BatchThreads(), max_rows=2)({"x": rows})

    rows = np.array([2, 1, 4, 3, 1])
    found = asyncio.run(main())
    assert sizes == [2, 2, 1]
    for name, expected in run({"x": rows}).items():
        np.testing.assert_array_equal(found[name], expected)
        assert found[name].dtype == expected.dtype


def test_a_fixed_number_of_rows():
    """A signature for one text runs on each request by itself, even if several wait."""

    @tf.function(input_signature=[tf.TensorSpec([1], tf.string, "text")])
    def length(text):
        return {"length": tf.strings.length(text)}

    function = length.get_concrete_function()
    shapes = []

    def named(text):
        shapes.append(text.shape)
        return function(text)

    named.structured_input_signature = (), {"text": tf.TensorSpec([1], tf.string, "text")}
    ask = batcher_for(named, ServedVersion.runner(named), BatchThreads())

    async def both():
        return await asyncio.gather(*(ask({"text": np.array([text], object)}) for text in ("a", "bb")))

    assert [answer["length"].tolist() for answer in asyncio.run(both())] == [[1], [2]]
    assert shapes == [(1,), (1,)]


def test_an_output_without_a_row_for_each_row():
    async def main():
        waiting = Batcher(lambda columns: {"x": np.float32(1)}, BatchThreads())
        await asyncio.gather(*(asyncio.wait_for(waiting({"x": np.array([number])}), 10) for number in range(3)))

    with pytest.raises(BadRequest, match="'x' must have one row for each row of the request"):
        asyncio.run(main())


@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_large_request_for_such_an_output(shape):
    """It runs in slices, whose outputs cannot be joined."""
    batcher = Batcher(lambda columns: {"x": np.zeros(shape, "float32")}, BatchThreads(), max_rows=2)
    with pytest.raises(BadRequest, match=rf"'x' must have.*shape {re.escape(str(list(shape)))} for 2 rows"):
        asyncio.run(batcher({"y": np.zeros(5)}))
