"""HTML from tags and texts. Every text is escaped, so that no row of a file can become a part of the page."""

from collections.abc import Iterable
from html import escape
from typing import Any


class Html(str):
    """Text that is HTML already."""


def tag(name: str, *content: Any, **attributes: Any) -> Html:
    """An element with this content; an underscore in the name of an attribute is a hyphen, None leaves it out.

    >>> tag("p", "1 < 2 ", tag("b", "is true"), class_="hint")
    '<p class="hint">1 &lt; 2 <b>is true</b></p>'
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    opened = "".join(f' {key}="{escape(str(value))}"' for key, value in given.items())
    return Html(f"<{name}{opened}>{joined(content)}</{name}>")


def joined(content: Iterable[Any], between: str = "") -> Html:
    """Elements and texts, one after another."""
    return Html(between.join(one if isinstance(one, Html) else escape(str(one)) for one in content))
