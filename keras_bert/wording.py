"""Wording of messages."""


def listed(names: list[str], most: int = 4) -> str:
    """The first names of a list, and how many more there are.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or else its type.

    >>> first_line(ValueError("no room\\nin the file")), first_line(KeyboardInterrupt())
    ('no room', 'KeyboardInterrupt')
    """
    return next(iter(str(error).splitlines()), type(error).__name__)
