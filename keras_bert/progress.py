"""A bar for long work, on standard error and only where that is a terminal that can move it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


def progress(items: Iterable[Item], title: str, total: int) -> Iterator[Item]:
    """The items, with a bar that moves as they are taken.

    >>> list(progress("abc", "Spelling", total=3))
    ['a', 'b', 'c']
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(
        items, escape(title), total=total, console=console, disable=not console.is_interactive, transient=True
    )


@contextmanager
def bar(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar for work that is counted in bytes or the like; the function moves it on. None: the end is not known.

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
