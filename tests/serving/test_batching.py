"""Requests that come while a batch runs."""

import asyncio
import time

import numpy as np
import tensorflow as tf

from keras_bert.serving.batcher import Batcher
from keras_bert.serving.served_version import batcher


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
        waiting = Batcher(run, max_rows=4, wait=0.001)
        return await asyncio.gather(*(ask(waiting, number) for number in range(40)))

    assert asyncio.run(main()) == [[number] for number in range(40)]
    assert not faults


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
    ask = batcher(named)

    async def both():
        return await asyncio.gather(*(ask({"text": np.array([text], object)}) for text in ("a", "bb")))

    assert [answer["length"].tolist() for answer in asyncio.run(both())] == [[1], [2]]
    assert shapes == [(1,), (1,)]
