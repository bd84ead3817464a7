"""Requests that wait at the same time run as one batch."""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from keras_bert.serving.predict_requests import BadRequest

Columns = dict[str, np.ndarray]
Run = Callable[[Columns], Columns]

MAX_WAITING = 1024  # requests
MAX_WAITING_BYTES = 64 << 20


class Overloaded(RuntimeError):
    """Too many requests are waiting."""


class _Waiting(NamedTuple):
    columns: Columns
    rows: int
    row_bytes: int  # of the longest row
    answer: "asyncio.Future[Columns]"


class BatchThreads:
    """Two threads that run the batches of all batchers of a server, one that counts pieces, and what waits for them.

    At most `MAX_WAITING` requests may wait, with `MAX_WAITING_BYTES` bytes in all when they are padded to their longest
    rows. Further ones are refused.
    """

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(2, thread_name_prefix="batch")
        self._counter = ThreadPoolExecutor(1, thread_name_prefix="count")  # only one, since counting takes memory
        self._to_count = 0  # bytes
        self.slots = asyncio.Semaphore(2)
        self._requests = self._bytes = 0

    def enter(self, size: int) -> None:
        """Count a request of so many bytes, unless too many wait."""
        if self._requests >= MAX_WAITING or self._bytes > MAX_WAITING_BYTES:
            raise Overloaded(
                f"The server is busy. At most {MAX_WAITING} requests, with {MAX_WAITING_BYTES} bytes in all, may wait. "
                f"Try again later. Received: one more than {self._requests} requests with {self._bytes} bytes"
            )
        self._requests += 1
        self._bytes += size

    def leave(self, size: int) -> None:
        """A request of so many bytes waits no longer."""
        self._requests -= 1
        self._bytes -= size

    async def count(self, tokenize: Callable[[np.ndarray], Any], rows: list[list[bytes]]) -> list[int]:
        """How many pieces the texts of each row have."""
        if self._to_count > MAX_WAITING_BYTES:
            raise Overloaded(
                f"The server is busy. At most {MAX_WAITING_BYTES} bytes of texts may wait until their pieces are "
                f"counted. Try again later. Received: a request while {self._to_count} bytes wait"
            )
        size = sum(len(text) for row in rows for text in row)
        self._to_count += size
        try:
            return await asyncio.get_running_loop().run_in_executor(self._counter, _pieces, tokenize, rows)
        finally:
            self._to_count -= size


class Batcher:
    """Runs one function of columns on the rows of many requests.

    A request starts at once if no other is being answered; otherwise it gives more `wait` seconds to join it.
    A batch has at most `max_rows` rows and `max_bytes` bytes when it is padded to its longest row, or is one request.
    A request of more rows runs in slices of `max_rows`, so that it needs no more memory at a time.

    Requests whose columns have other shapes, such as ids of another length, run in batches of their own. If a batch
    fails, each of its requests runs in a batch of its own, so that one bad row does not fail the others.
    """

    def __init__(
        self,
        run: Run,
        threads: BatchThreads,
        *,
        max_rows: int = 64,
        max_bytes: int = 1 << 20,
        wait: float = 0.002,
    ) -> None:
        self._run = run
        self._threads = threads
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._wait = wait
        self._waiting: dict[Any, list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, columns: Columns) -> Columns:
        key = tuple((name, array.shape[1:]) for name, array in sorted(columns.items()))
        rows = len(next(iter(columns.values())))
        one = _Waiting(columns, rows, _row_bytes(columns, rows), asyncio.get_running_loop().create_future())
        self._threads.enter(one.rows * one.row_bytes)
        queue = self._waiting.setdefault(key, [])
        queue.append(one)
        if len(queue) == 1:
            task = asyncio.create_task(self._drain(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await one.answer

    async def _drain(self, key: Any) -> None:
        """Run the requests that wait under this key, a batch at a time; batches grow while both threads are busy."""
        await asyncio.sleep(self._wait if len(self._tasks) > 1 else 0)
        while self._waiting.get(key):
            async with self._threads.slots:
                if key in self._waiting:  # otherwise another task has run them
                    await self._answer(self._take(key))

    def _take(self, key: Any) -> list[_Waiting]:
        queue, rows, row_bytes = self._waiting[key], 0, 0
        batch: list[_Waiting] = []
        while queue:
            rows, row_bytes = rows + queue[0].rows, max(row_bytes, queue[0].row_bytes)
            if batch and (rows > self._max_rows or rows * row_bytes > self._max_bytes):
                break
            batch.append(queue.pop(0))
            self._threads.leave(batch[-1].rows * batch[-1].row_bytes)
        if not queue:
            del self._waiting[key]
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        try:
            joined = {name: np.concatenate([one.columns[name] for one in batch]) for name in batch[0].columns}
            answers = _split(await loop.run_in_executor(self._threads.pool, self._in_slices, joined), batch)
        except Exception as error:
            if len(batch) > 1:
                for one in batch:
                    await self._answer([one])
            elif not batch[0].answer.cancelled():
                batch[0].answer.set_exception(error)
            return
        for one, answer in zip(batch, answers, strict=True):
            if not one.answer.cancelled():
                one.answer.set_result(answer)

    def _in_slices(self, columns: Columns) -> Columns:
        rows = len(next(iter(columns.values())))
        if rows <= self._max_rows:
            return _checked(self._run(columns), rows)
        parts = [
            self._in_slices({name: array[start : start + self._max_rows] for name, array in columns.items()})
            for start in range(0, rows, self._max_rows)
        ]
        return {name: _joined([part[name] for part in parts]) for name in parts[0]}


def _pieces(tokenize: Callable[[np.ndarray], Any], rows: list[list[bytes]]) -> list[int]:
    ids = tokenize(np.array([text for row in rows for text in row], object))
    counts = iter(np.asarray(ids.merge_dims(1, 2).row_lengths()).tolist())
    return [sum(islice(counts, len(row))) for row in rows]


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """The rows of all parts, padded to the longest ones as an export pads them, with 0 or the empty string."""
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) == 1:
        return np.concatenate(parts)
    filler = b"" if parts[0].dtype == object else 0
    shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    joined = np.full((sum(map(len, parts)), *shape), filler, parts[0].dtype)
    ends = np.cumsum([len(part) for part in parts])
    for part, end in zip(parts, ends, strict=True):
        joined[(slice(end - len(part), end), *map(slice, part.shape[1:]))] = part
    return joined


def _checked(outputs: Columns, rows: int) -> Columns:
    """The outputs for so many rows; an error unless each has as many."""
    for name, array in outputs.items():
        if np.shape(array)[:1] != (rows,):
            raise BadRequest(
                f"The output {name!r} must have one row for each row of the request. Use another signature, or change "
                "the output (in a task, `answers_in_graph`) and export the model again. "
                f"Received: shape {list(np.shape(array))} for {rows} rows"
            )
    return outputs


def _split(outputs: Columns, batch: list[_Waiting]) -> list[Columns]:
    """The rows of each request."""
    ends = np.cumsum([one.rows for one in batch])
    return [
        {name: array[end - one.rows : end] for name, array in outputs.items()}
        for one, end in zip(batch, ends, strict=True)
    ]


def _row_bytes(columns: Columns, rows: int) -> int:
    """The bytes of the longest row: of its strings, each as long as the longest, or of its numbers."""
    return sum(
        max(map(len, array.ravel()), default=0) * math.prod(array.shape[1:])
        if array.dtype == object
        else array.nbytes // max(rows, 1)
        for array in columns.values()
    )
