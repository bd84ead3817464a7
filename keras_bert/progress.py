"""Progress bars for long work, on standard error, and only if that is an interactive terminal."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


def progress(items: Iterable[Item], title: str, total: int) -> Iterator[Item]:
    """The items, with a bar that advances with each.

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
