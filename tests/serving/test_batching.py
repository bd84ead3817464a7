"""Requests that come while a batch runs."""

import asyncio
import time

import numpy as np

from keras_bert.serving.batcher import Batcher


def test_each_gets_its_own():
    faults = []

    def run(columns):
        time.sleep(0.01)
        return columns

    async def ask(batcher, number):
        await asyncio.sleep(0.002 * number)
        return (await batcher({"x": np.array([number])}))["x"].tolist()

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, fault: faults.append(fault))
        batcher = Batcher(run, max_rows=4, wait=0.001)
        return await asyncio.gather(*(ask(batcher, number) for number in range(40)))

    assert asyncio.run(main()) == [[number] for number in range(40)]
    assert not faults
