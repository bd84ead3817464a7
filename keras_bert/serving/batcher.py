"""Requests that wait at the same time run as one batch."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

Columns = dict[str, np.ndarray]


class Overloaded(RuntimeError):
    """Too many requests are waiting."""


class _Waiting(NamedTuple):
    columns: Columns
    rows: int
    answer: "asyncio.Future[Columns]"


class Batcher:
    """Runs one function of columns on the rows of many requests.

    Requests whose columns have other shapes, such as ids of another length, run in batches of their own. If a batch
    fails, each of its requests runs in a batch of its own, so that one bad row does not fail the others.
    """

    def __init__(
        self, run: Callable[[Columns], Columns], *, max_rows: int = 64, wait: float = 0.002, max_waiting: int = 1024
    ) -> None:
        self._run = run
        self._max_rows = max_rows
        self._wait = wait
        self._max_waiting = max_waiting
        self._waiting: dict[Any, list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="batch")
        self._slots = asyncio.Semaphore(2)

    async def __call__(self, columns: Columns) -> Columns:
        if sum(map(len, self._waiting.values())) >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting} requests are waiting already. Try again later.")
        key = tuple((name, array.shape[1:]) for name, array in sorted(columns.items()))
        rows = len(next(iter(columns.values())))
        one = _Waiting(columns, rows, asyncio.get_running_loop().create_future())
        queue = self._waiting.setdefault(key, [])
        queue.append(one)
        if len(queue) == 1:
            task = asyncio.create_task(self._drain(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await one.answer

    async def _drain(self, key: Any) -> None:
        """Run the requests that wait under this key, a batch at a time; batches grow while both threads are busy."""
        await asyncio.sleep(self._wait)
        while self._waiting.get(key):
            async with self._slots:
                if key in self._waiting:  # otherwise another task has run them
                    await self._answer(self._take(key))

    def _take(self, key: Any) -> list[_Waiting]:
        queue, rows = self._waiting[key], 0
        batch: list[_Waiting] = []
        while queue and (not batch or rows + queue[0].rows <= self._max_rows):
            batch.append(queue.pop(0))
            rows += batch[-1].rows
        if not queue:
            del self._waiting[key]
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        joined = {name: np.concatenate([one.columns[name] for one in batch]) for name in batch[0].columns}
        try:
            outputs = await loop.run_in_executor(self._threads, self._run, joined)
        except Exception as error:
            if len(batch) > 1:
                for one in batch:
                    await self._answer([one])
            elif not batch[0].answer.cancelled():
                batch[0].answer.set_exception(error)
            return
        start = 0
        for one in batch:
            if not one.answer.cancelled():
                one.answer.set_result({name: array[start : start + one.rows] for name, array in outputs.items()})
            start += one.rows
