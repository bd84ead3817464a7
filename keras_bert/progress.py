"""A bar for long work, on standard error and only where that is a terminal."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def progress(items: Iterable[Item], title: str, total: int) -> Iterator[Item]:
    """The items, with a bar that moves as they are taken.

    >>> list(progress("abc", "Spelling", total=3))
    ['a', 'b', 'c']
    """
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(items, title, total=total, console=console, disable=not console.is_terminal, transient=True)
