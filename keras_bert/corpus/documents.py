"""A corpus as a stream of documents, with the text as it is in the file: `sentences.py` splits it later, on all cores.

Documents are separated by a heading in markdown, a blank line in plain text, a line in JSONL and a page in Wikipedia.
"""

import io
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, pairwise
from typing import Any, NamedTuple

from keras_bert.corpus.files import find_files, kind_of, open_bytes
from keras_bert.corpus.wikipedia import plain_text, read_pages
from keras_bert.jsonl import parse_line
from keras_bert.text_encoding import checked_encoding, without_mark, wrong_encoding

logger = logging.getLogger("keras_bert")

BOUNDARIES = ("auto", "blank-line", "heading", "file")
MAX_CHARACTERS = 16_000_000  # a longer document of a text file is split, so that memory does not grow with the corpus
MAX_LINE = 8 * MAX_CHARACTERS  # of JSONL, which cannot be split
_SAMPLE = (500, 1_000_000)  # lines and characters at the beginning of a file, by which wrapped lines are recognized
_HEADING = re.compile(r"#{1,6}(\s|$)")
_UNDERLINE = re.compile(r"(=+|-+)\s*$")
_FENCE = re.compile(r"\s*(```(?!.*`)|~~~)")  # a line with ``` at both ends is code in a text
_WORD = re.compile(r"\w")


class Document(NamedTuple):
    """A text and what its lines mean.

    form: "lines" (each line is a paragraph), "paragraphs" (separated by blank lines, so that a line may end anywhere),
        "markdown" or "wikipedia".
    namespaces: of the wiki, by which links to pictures and categories are recognized.
    """

    text: str
    form: str
    namespaces: tuple[str, ...] = ()


def read_documents(
    corpus: Any,
    *,
    boundary: str = "auto",
    text_field: str = "text",
    encoding: str = "utf-8",
    seen: Callable[[int], None] = lambda size: None,
) -> Iterator[Document]:
    """The documents of files (paths, patterns, folders), of a tf.data.Dataset, or of any other iterable of texts.

    corpus: a `str` or `Path`, or a list or tuple of them, names files; anything else yields documents.
    boundary: what separates the documents of a text file: "blank-line", "heading" or "file" (each file is one
        document); "auto" is "heading" for .md files and "blank-line" for others.
    text_field: the name of the text in the objects of a JSONL file.
    encoding: of the files; a Wikipedia dump names its own.
    seen: called with the number of bytes just read from the files.

    >>> [document.text for document in read_documents(iter(["One. Two.", "Three."]))]
    ['One. Two.', 'Three.']
    """
    check_boundary(boundary)
    encoding = checked_encoding(encoding)
    documents = _in_files(corpus, boundary, text_field, encoding, seen) if is_files(corpus) else _in_memory(corpus)
    return (document for document in documents if _WORD.search(document.text))


def read_texts(
    corpus: Any, *, text_field: str = "text", encoding: str = "utf-8", seen: Callable[[int], None] = lambda size: None
) -> Iterator[str]:
    """All text of files, for callers that only need words; the arguments are those of `read_documents`.

    Text and markdown files come line by line, headings and markup included; other files document by document.
    """
    encoding = checked_encoding(encoding)
    for path in find_files(corpus):
        kind = kind_of(path)
        with open_bytes(path, seen) as stream:
            if kind == "wikipedia":
                yield from (plain_text(*page) for page in read_pages(stream, path))
            elif kind == "jsonl":
                yield from _texts_in_jsonl(stream, path, text_field, encoding)
            else:
                yield from _lines(stream, path, encoding, MAX_CHARACTERS)


def check_boundary(boundary: str) -> None:
    """Raise an error for an unknown boundary."""
    if boundary not in BOUNDARIES:
        raise ValueError(f"`boundary` (--documents) must be one of {', '.join(BOUNDARIES)}. Received: {boundary!r}")


def is_files(corpus: Any) -> bool:
    """Whether a corpus consists of paths, not of texts."""
    return isinstance(corpus, str | os.PathLike | list | tuple)


def _in_memory(texts: Iterable[Any]) -> Iterator[Document]:
    for number, text in enumerate(texts):
        text = text.numpy() if hasattr(text, "numpy") else text
        if not isinstance(text, str | bytes):
            raise TypeError(
                f"`corpus` has an item at index {number} that is not a string. A corpus in memory yields one string "
                f"for each document. Received: {type(text).__name__}"
            )
        text = text if isinstance(text, str) else text.decode("utf-8", "ignore")
        if number == 0 and len(text) < 4096 and os.path.isfile(text):
            raise ValueError(
                "An iterator yields texts to learn from, but the first one is the path of a file. Give paths as a "
                f"list. Received: {text!r}"
            )
        yield Document(text, "lines")


def _in_files(
    corpus: Any, boundary: str, text_field: str, encoding: str, seen: Callable[[int], None]
) -> Iterator[Document]:
    for path in find_files(corpus):
        kind = kind_of(path)
        with open_bytes(path, seen) as stream:
            if kind == "wikipedia":
                yield from (Document(text, "wikipedia", namespaces) for text, namespaces in read_pages(stream, path))
            elif kind == "jsonl":
                yield from (Document(text, "lines") for text in _texts_in_jsonl(stream, path, text_field, encoding))
            else:
                yield from _in_text(_lines(stream, path, encoding, MAX_CHARACTERS), path, kind, boundary)


def _lines(stream: Any, path: str, encoding: str, most: int) -> Iterator[str]:
    """Lines without their line ends; content that is not text in this encoding is an error that names the file.

    most: characters of a line; a longer one is split.
    """
    text = io.TextIOWrapper(stream, encoding, errors="strict", newline=None)
    number, begins = 0, True
    try:
        while line := text.readline(most):
            number += begins
            if number == 1 and begins:
                line = line.removeprefix("\ufeff")
            begins = line.endswith("\n")
            if "\0" in line:
                raise ValueError(
                    f"{path}, line {number}, has a NUL character, so this is not text in {encoding.upper()}. Leave "
                    "binary files out. If it is UTF-16, name its encoding with --encoding (encoding=...), often "
                    f"utf-16-le. Received: {line[:60]!r}"
                )
            yield line.rstrip("\n")
    except UnicodeDecodeError as error:  # bytes are decoded in blocks
        before, after = error.object[: error.start], error.object[error.start :] + stream.readline(MAX_CHARACTERS)
        number += begins + len(re.findall(r"\r\n?|\n", before.decode(encoding, "ignore")))
        wrong = re.split(rb"[\r\n]", before)[-1] + re.split(rb"[\r\n]", after, maxsplit=1)[0]
        raise wrong_encoding(path, number, wrong, encoding) from None
    except UnicodeError:  # of UTF-16 and UTF-32
        raise without_mark(path, encoding) from None


def _texts_in_jsonl(stream: Any, path: str, text_field: str, encoding: str) -> Iterator[str]:
    for number, line in enumerate(_lines(stream, path, encoding, MAX_LINE), 1):
        if len(line) >= MAX_LINE:
            raise ValueError(
                f"{path}, line {number} is longer than {MAX_LINE:,} characters. Write one document in each line, or "
                f"leave the file out. Received: {line[:60]}"
            )
        if not line.strip():
            continue
        entry = parse_line(line, path, number, remedy="Write one JSON value in each line, or leave the file out")
        text = entry.get(text_field) if isinstance(entry, dict) else entry
        if not isinstance(text, str):
            raise ValueError(
                f"{path}, line {number} has no text. Each line must be a JSON string, or a JSON object with a string "
                f"in {text_field!r}. Name another field with text_field (--text-field). Received: {line[:60]}"
            )
        yield text


def _in_text(lines: Iterator[str], path: str, kind: str, boundary: str) -> Iterator[Document]:
    if boundary == "auto":
        boundary = "heading" if kind == "markdown" else "blank-line"
    if boundary == "heading":
        groups, form = split_at_headings(lines, path), "markdown"
    else:
        first = _sample(lines)
        again = chain(iter(first), lines)  # an iterator lets go of the list at its end
        separated = ((line, boundary == "blank-line" and not line.strip()) for line in again)
        groups, form = _split(separated, path), "lines"
        if kind == "markdown":
            form = "markdown"
        elif boundary == "file" or is_wrapped(first):
            form = "paragraphs"
    return (Document("\n".join(group), form) for group in groups)


def _sample(lines: Iterator[str]) -> list[str]:
    """The next lines, taken from the iterator."""
    most_lines, most_characters = _SAMPLE
    found: list[str] = []
    size = 0
    while len(found) < most_lines and size < most_characters and (line := next(lines, None)) is not None:
        found.append(line)
        size += len(line)
    return found


def is_wrapped(lines: list[str]) -> bool:
    """Whether lines end where the next word would not fit, and not at the end of a paragraph or a sentence.

    >>> is_wrapped(["It was a bright cold day in", "April, and the clocks were", "striking thirteen.", ""] * 10)
    True
    """
    lengths = sorted(len(line) for line in lines if line.strip())
    pairs = [(line, following) for line, following in pairwise(lines) if line.strip() and following.strip()]
    if len(pairs) < 20:
        return False
    width = lengths[int(0.95 * len(lengths))]
    full = sum(len(line.rstrip()) + len(following.split()[0]) >= 0.95 * width for line, following in pairs)
    return 25 <= width <= 120 and full > 0.75 * len(pairs)


def split_at_headings(lines: Iterable[str], source: str = "A text") -> Iterator[list[str]]:
    """The lines between headings, `# Heading` or underlined; a # in fenced code is not a heading.

    source: what to name in a warning about parts that are too long.
    """

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

    return _split(marked(), source)


def _split(lines: Iterable[tuple[str, bool]], source: str) -> Iterator[list[str]]:
    """Groups of lines: a line marked True separates two groups and is in neither."""
    group: list[str] = []
    size = 0
    warned = False
    for line, separates in lines:
        if separates or size > MAX_CHARACTERS:
            if group:
                yield group
            if not separates and not warned:
                logger.warning("%s: documents longer than %s characters are split.", source, f"{MAX_CHARACTERS:,}")
                warned = True
            group, size = [], 0
        if not separates:
            group.append(line)
            size += len(line) + 1  # its line end, since lines can be empty
    if group:
        yield group
