"""Wording of messages."""


def listed(names: list[str], most: int = 4) -> str:
    """The first names of a list, and how many more there are.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def plural(word: str, count: int) -> str:
    """The word, with an s unless it stands for one thing.

    >>> plural("column", 1), plural("column", 2)
    ('column', 'columns')
    """
    return word if count == 1 else word + "s"


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or else its type.

    >>> first_line(ValueError("no room\\nin the file")), first_line(KeyboardInterrupt())
    ('no room', 'KeyboardInterrupt')
    """
    return next(iter(str(error).splitlines()), type(error).__name__)


def one_line(text: str) -> str:
    r"""A text with its line breaks as they are written in Python, for a line of a table.

    >>> one_line("a\nb")
    'a\\nb'
    """
    return text.replace("\n", "\\n").replace("\r", "\\r")


def cell(text: str) -> str:
    r"""A text in one line and without tabs, which are written as in Python, for a column of a tab-separated table.

    >>> cell("a\tb\nc")
    'a\\tb\\nc'
    """
    return one_line(text).replace("\t", "\\t")
