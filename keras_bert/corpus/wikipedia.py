"""Wikipedia dumps: the pages in the XML, and the prose in their markup.

Lists, tables, headings, templates, references, pictures and categories are dropped, as BERT's authors did.
"""

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from keras_bert.installation import need

# A dump lists its namespaces in its own language; these names work in every wiki.
_NAMESPACES = ("File", "Image", "Media", "Category")
_LISTS = frozenset(("li", "dt", "dd"))
_PROSE = frozenset(
    ("b", "i", "u", "s", "strong", "em", "small", "big", "sub", "sup", "span", "blockquote", "q", "cite")
)
_PROSE |= {"abbr", "font", "center", "nowiki", "ins", "del", "code", "var", "section"}
_BLOCKS = frozenset(("p", "div", "hr"))
# What is left where a template was dropped: (Seoul, ) and ().
_LEFT_OVER = re.compile(r"(?<=[(（])[\s,;、]+|(?<![\s,;、])[\s,;、]+(?=[)）])")
_EMPTY_BRACKETS = re.compile(r"(?<!\s)\s*(\(\)|（）)")
_MAGIC_WORDS = re.compile(r"__[A-Z]{3,}__")
_SPACES = re.compile(r"[ \t\xa0]+")


def read_pages(stream: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The markup of each article, and the wiki's namespaces. Redirects and other namespaces are skipped.

    Only one page is in memory at a time. A file whose root is not `mediawiki` is an error.
    """
    namespaces: set[str] = set(_NAMESPACES)
    events = ElementTree.iterparse(stream, events=("start", "end"))
    root, depth = None, 0
    try:
        for event, element in events:
            tag = element.tag.rpartition("}")[2]
            if root is None:
                root = element
                if tag != "mediawiki":
                    raise ValueError(
                        f"{path} is XML, but not a Wikipedia dump. Leave it out of the corpus, or save its text as a "
                        f".txt file. Received: the root element <{tag}>"
                    )
            if event == "start":
                depth += 1
                continue
            depth -= 1
            if tag == "namespace" and element.text:
                namespaces.add(element.text)
            elif tag == "page" and (text := _article(element)):
                yield text, tuple(sorted(namespaces))
            if depth == 1:
                root.clear()
    except ElementTree.ParseError as error:
        raise ValueError(
            f"The Wikipedia dump {path} is not complete XML. Download it again. Received: {error}"
        ) from None


def plain_text(markup: str, namespaces: tuple[str, ...] = _NAMESPACES) -> str:
    """The prose of a page, one paragraph on each line.

    namespaces: of the wiki; links to files and categories are recognized by them.

    >>> plain_text("'''Seoul''' is in [[South Korea|Korea]].{{ref}}\\n\\n== History ==\\n* a list\\nIt is old.")
    'Seoul is in Korea.\\nIt is old.'
    """
    mwparserfromhell = need("mwparserfromhell", "Reading a Wikipedia dump", "pretrain")
    names = frozenset(name.lower() for name in namespaces)
    text = _MAGIC_WORDS.sub("", "".join(_prose(mwparserfromhell.parse(markup), names)))
    lines = (_EMPTY_BRACKETS.sub("", _LEFT_OVER.sub("", line)) for line in text.split("\n"))
    lines = (_SPACES.sub(" ", line).strip() for line in lines)
    return "\n".join(line for line in lines if line)


def _article(page: Any) -> str | None:
    parts = {element.tag.rpartition("}")[2]: element for element in page}
    if parts.get("ns") is None or parts["ns"].text != "0" or "redirect" in parts or "revision" not in parts:
        return None
    return next((part.text for part in parts["revision"] if part.tag.rpartition("}")[2] == "text"), None)


def _prose(code: Any, namespaces: frozenset[str]) -> Iterator[str]:
    """The text of the nodes that are prose. After a list marker, the rest of the line is dropped."""
    from mwparserfromhell import nodes

    in_list = False
    for node in code.nodes:
        if isinstance(node, nodes.Tag) and str(node.tag).lower() in _LISTS and node.wiki_markup:
            in_list = True
            continue
        if isinstance(node, nodes.Heading):
            in_list = False
            yield "\n"
            continue
        text = _text(node, namespaces)
        if in_list:
            _, line_end, text = text.partition("\n")
            in_list = not line_end
            text = line_end + text
        yield text


def _text(node: Any, namespaces: frozenset[str]) -> str:
    from mwparserfromhell import nodes

    match node:
        case nodes.Text():
            return str(node.value)
        case nodes.Wikilink():
            # [[File:x.jpg]] shows no text, [[:File:x.jpg]] does; [[fr:Page]] links to a page in another language.
            prefix, colon, _ = str(node.title).strip().partition(":")
            if colon and prefix and (prefix.lower() in namespaces or re.fullmatch(r"[a-z]{2,3}(-[a-z-]+)?", prefix)):
                return ""
            return "".join(_prose(node.text, namespaces)) if node.text is not None else str(node.title).strip(": ")
        case nodes.ExternalLink():
            return "".join(_prose(node.title, namespaces)) if node.title is not None and node.brackets else ""
        case nodes.HTMLEntity():
            return node.normalize()
        case nodes.Tag():
            name = str(node.tag).lower()
            if name == "br":
                return " "
            if name in _PROSE | _BLOCKS:
                inner = "".join(_prose(node.contents, namespaces)) if node.contents is not None else ""
                return f"\n{inner}\n" if name in _BLOCKS else inner
            return ""  # tables, references, galleries, formulas
        case _:
            return ""  # templates, arguments, comments
