"""Progress of long work: bars on standard error if that is an interactive terminal, and log lines elsewhere."""

import logging
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeVar

from keras_bert.wording import plural

logger = logging.getLogger("keras_bert")

Item = TypeVar("Item")


def progress(items: Iterable[Item], title: str, total: int) -> Iterator[Item]:
    """The items, with a bar that advances with each; a single item has none.

    >>> list(progress("abc", "Spelling", total=3))
    ['a', 'b', 'c']
    """
    if total < 2:
        yield from items
        return
    with bar(title, total) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar for work that is counted in bytes, for example. The function that it yields advances the bar.

    Args:
        total: how much there is to do; None if that is not known.

    >>> with bar("Reading", total=3) as advance:
    ...     advance(3)
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_interactive, transient=True) as shown:
        task = shown.add_task(escape(title), total=total)
        yield lambda step: shown.advance(task, step)


EACH_TIME = {"each_time": True}  # `extra` of a log line that stays, even if the same was logged before
_SECONDS = 30.0  # between the lines of a `ProgressLog`


class ProgressLog:
    """Log lines on work that takes minutes, for logs in which no bar can move.

    There is at most one line in 30 seconds, and at most one for each hundredth of the work.

    Args:
        total: how many steps there are; None if that is not known.
    """

    def __init__(self, title: str, total: int | None) -> None:
        self.title = title
        self.total = total
        self.latest = time.monotonic()  # of the last line
        self.logged = 0  # steps
        self.times: deque[float] = deque(maxlen=101)  # when the last steps were done

    def at(self, done: int, note: Callable[[], str]) -> None:
        """Log that so many steps are done, with a note, if it is time for a line. Call it after each step."""
        now, total = time.monotonic(), self.total or 0
        self.times.append(now)
        if now - self.latest < _SECONDS or done - self.logged < total / 100 or done == total:
            return
        self.latest, self.logged = now, done
        of = f" of {total} ({100 * done // total} %)" if total else ""
        if total and len(self.times) > 1:
            # The median without the first step: it compiles, and so do later ones with a new shape.
            seconds = statistics.median(after - before for before, after in pairwise(self.times))
            minutes = round(seconds * (total - done) / 60)
            left = f"about {minutes} {plural('minute', minutes)}" if minutes else "less than a minute"
            of += f", {left} left"
        logger.info("%s: step %d%s, %s", self.title, done, of, note())


@contextmanager
def reported_if_slow(message: Callable[[float], str | None], every: float) -> Iterator[None]:
    """A block that may wait forever for something outside this process: warnings say for what.

    Args:
        message: called with the seconds since the block began; None logs nothing.
        every: seconds between the warnings, of which the first is due as late.
    """
    begin, ended = time.monotonic(), threading.Event()

    def watch() -> None:
        while not ended.wait(every):
            text = message(time.monotonic() - begin)
            if text is not None and not ended.is_set():
                logger.warning("%s", text)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
