"""A corpus as a stream of documents, each as its file has it: sentences are made of them later, on all cores.

What parts documents: in markdown a heading, in plain text a blank line, in JSONL a line, in a dump of Wikipedia a page.
"""

import io
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from keras_bert.corpus.streams import find_files, kind_of, open_bytes
from keras_bert.jsonl import parse_line

logger = logging.getLogger(__name__)

BOUNDARIES = ("auto", "blank-line", "heading", "file")
MAX_CHARACTERS = 16_000_000  # of one document; a longer one is cut, so that memory does not grow with the corpus
_HEADING = re.compile(r"#{1,6}(\s|$)")
_UNDERLINE = re.compile(r"(=+|-+)\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")
_WORD = re.compile(r"\w")


class Document(NamedTuple):
    """A text and what its lines mean.

    form: "lines" (a line is a paragraph), "paragraphs" (a blank line parts them), "markdown" or "wikipedia".
    namespaces: of a wiki, to tell pictures and categories from links.
    """

    text: str
    form: str
    namespaces: tuple[str, ...] = ()


def read_documents(
    corpus: Any,
    *,
    boundary: str = "auto",
    text_field: str = "text",
    seen: Callable[[int], None] = lambda size: None,
) -> Iterator[Document]:
    """The documents of files (paths, patterns, folders), of a tf.data.Dataset or of any other iterable of texts.

    corpus: a `str` or `Path`, or a list or tuple of them, names files; anything else gives documents.
    boundary: what parts the documents of a text file: "blank-line", "heading" or "file"; "auto": a heading in .md, a
        blank line elsewhere.
    text_field: where an object of a JSONL file has its text.
    seen: told how many more bytes of the files were read.

    >>> [document.text for document in read_documents(iter(["One. Two.", "Three."]))]
    ['One. Two.', 'Three.']
    """
    check_boundary(boundary)
    documents = _of_files(corpus, boundary, text_field, seen) if is_files(corpus) else _of_texts(corpus)
    return (document for document in documents if _WORD.search(document.text))


def read_texts(
    corpus: Any, *, text_field: str = "text", seen: Callable[[int], None] = lambda size: None
) -> Iterator[str]:
    """The text of files, all of it, for what asks for words alone; the arguments are those of `read_documents`.

    Text and markdown come by the line, as they stand, headings and marks included; the rest by the document.
    """
    for path in find_files(corpus):
        kind = kind_of(path)
        with open_bytes(path, seen) as stream:
            if kind == "wikipedia":
                from keras_bert.corpus.wikipedia import plain_text, read_pages

                yield from (plain_text(page.text, page.namespaces) for page in read_pages(stream, path))
            elif kind == "jsonl":
                yield from (document.text for document in _of_jsonl(_lines(stream, path), path, text_field))
            else:
                yield from _lines(stream, path)


def check_boundary(boundary: str) -> None:
    """Refuse what is no way to part documents."""
    if boundary not in BOUNDARIES:
        raise ValueError(f"boundary (--documents) must be one of {', '.join(BOUNDARIES)}. Received: {boundary!r}")


def is_files(corpus: Any) -> bool:
    """Whether a corpus is named by paths, or is the texts themselves."""
    return isinstance(corpus, str | os.PathLike | list | tuple)


def _of_texts(texts: Iterable[Any]) -> Iterator[Document]:
    for number, text in enumerate(texts):
        text = text.numpy() if hasattr(text, "numpy") else text
        if not isinstance(text, str | bytes):
            raise TypeError(
                "A corpus in memory is an iterable of strings, a document each. "
                f"Received: {type(text).__name__} at index {number}"
            )
        yield Document(text if isinstance(text, str) else text.decode("utf-8", "ignore"), "lines")


def _of_files(corpus: Any, boundary: str, text_field: str, seen: Callable[[int], None]) -> Iterator[Document]:
    for path in find_files(corpus):
        kind = kind_of(path)
        with open_bytes(path, seen) as stream:
            if kind == "wikipedia":
                from keras_bert.corpus.wikipedia import read_pages

                yield from read_pages(stream, path)
            elif kind == "jsonl":
                yield from _of_jsonl(_lines(stream, path), path, text_field)
            else:
                yield from _of_text(_lines(stream, path), path, kind, boundary)


def _lines(stream: Any, path: str) -> Iterator[str]:
    """Lines of UTF-8 without their ends; a file that is something else is an error that names it."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="strict", newline=None)
    number = 0
    try:
        for number, line in enumerate(text, 1):
            if "\0" in line:
                raise ValueError(
                    f"A text file holds no NUL. Leave binary files out. Received: {path}, at line {number}"
                )
            yield line.rstrip("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            "A text file must be UTF-8. Save it again as UTF-8, or leave it out. "
            f"Received: {path}, after line {number} ({error.reason})"
        ) from None


def _of_jsonl(lines: Iterator[str], path: str, text_field: str) -> Iterator[Document]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        entry = parse_line(line, path, number)
        text = entry.get(text_field) if isinstance(entry, dict) else entry
        if not isinstance(text, str):
            raise ValueError(
                f"A line of JSONL must be a string, or an object with one at {text_field!r}. Name its field with "
                f"text_field (--text-field). Received: {path}, line {number}: {line[:60]}"
            )
        yield Document(text, "lines")


def _of_text(lines: Iterator[str], path: str, kind: str, boundary: str) -> Iterator[Document]:
    if boundary == "auto":
        boundary = "heading" if kind == "markdown" else "blank-line"
    if boundary == "heading":
        parts, form = between_headings(lines), "markdown"
    elif boundary == "file":
        parts, form = _whole(lines), "markdown" if kind == "markdown" else "paragraphs"
    else:
        parts, form = _between_blanks(lines), "markdown" if kind == "markdown" else "lines"
    cut = False
    for part in parts:
        cut = cut or part is _CUT
        if part is not _CUT:
            yield Document("\n".join(part), form)
    if cut:
        length = f"{MAX_CHARACTERS:,}"
        logger.warning("%s: documents of over %s characters are cut; nothing parts them.", path, length)


_CUT: list[str] = []  # stands behind a part that was cut for its length


def _whole(lines: Iterator[str]) -> Iterator[list[str]]:
    return _parted((line, False) for line in lines)


def _between_blanks(lines: Iterator[str]) -> Iterator[list[str]]:
    return _parted((line, not line.strip()) for line in lines)


def between_headings(lines: Iterable[str]) -> Iterator[list[str]]:
    """Parts between headings, `# Heading` or underlined; in fenced code a # is no heading."""

    def marked() -> Iterator[tuple[str, bool]]:
        fenced = False
        previous = ""
        for line in lines:
            fenced ^= bool(_FENCE.match(line))
            if previous and not fenced and _UNDERLINE.match(line):
                yield previous, True
                previous = ""
                continue
            if previous:
                yield previous, False
            previous = ""
            if not line.strip() or fenced:
                yield line, False
            elif _HEADING.match(line):
                yield line, True
            else:
                previous = line
        if previous:
            yield previous, False

    return _parted(marked())


def _parted(lines: Iterable[tuple[str, bool]]) -> Iterator[list[str]]:
    """The lines between those that part; these belong to none."""
    part: list[str] = []
    size = 0
    for line, parts in lines:
        if parts or size > MAX_CHARACTERS:
            if part:
                yield part
            if not parts:
                yield _CUT
            part, size = [], 0
        if not parts:
            part.append(line)
            size += len(line)
    if part:
        yield part
