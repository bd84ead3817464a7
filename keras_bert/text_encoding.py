"""The encodings of text files: their names, and the error for a line that is in another one; and blank texts."""

import codecs
import unicodedata

LIKELY = {"cp949": "Korean", "cp1252": "Western European", "shift_jis": "Japanese", "gb18030": "Chinese"}

_PACKED = {  # by their first bytes
    b"\x1f\x8b": "a gzip file. Unpack it. In a corpus, a file can stay packed if its name ends in .gz.",
    b"PK\x03\x04": "a ZIP archive or an Excel workbook. Unpack it, or save it as CSV.",
}


class UndecodedLine(str):
    """A line that is in another encoding, as far as it could be read, with the error for it."""

    error: ValueError


def checked_encoding(encoding: str) -> str:
    """The name that Python uses for an encoding of text.

    >>> checked_encoding("Latin1"), checked_encoding("utf_8_sig")
    ('iso8859-1', 'utf-8')
    """
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name.removesuffix("-sig")  # the mark is removed in any case
    except (LookupError, ValueError):  # unknown, not an encoding of text, or a name with NUL
        raise ValueError(
            f"There is no encoding {encoding!r}. Use one of Python's, such as utf-8, cp949, latin-1 or utf-16. "
            f"Received: encoding={encoding!r}"
        ) from None


def composed(name: str) -> str:
    """A label or the name of a column in Unicode's form NFC, in which letters that look the same are the same.

    >>> composed("cafe\N{COMBINING ACUTE ACCENT}") == "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    True
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def is_blank(text: str) -> bool:
    """Whether a text has only spaces and characters that are not seen, such as U+200B, from which no piece is made.

    >>> is_blank(" "), is_blank("\N{ZERO WIDTH SPACE}"), is_blank("\N{ZERO WIDTH SPACE}a")
    (True, True, False)
    """
    text = text.strip()
    return not text or (not text[0].isprintable() and all(one.isspace() or _is_unseen(one) for one in text))


def _is_unseen(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf")


def wrong_encoding(name: str, number: int, line: bytes, encoding: str) -> ValueError:
    """The error for a line that is in another encoding, with those that it may be in."""
    if what := next((what for start, what in _PACKED.items() if number == 1 and line.startswith(start)), None):
        return ValueError(f"{name} is not text, but {what} Received: {name}")
    if encoding != "utf-8" and not line.isascii() and decodes(line, "utf-8"):
        return ValueError(
            f"{name}, line {number}, is not {encoding.upper()}, but UTF-8. Pass --encoding utf-8 (encoding=...): "
            f"{encoding.upper()} was given, here or in the training. Received: {_undecoded(line, encoding)!r}"
        )
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        likely = ["utf-16"]
    elif b"\0" in line:
        likely = ["utf-16-le", "no text at all"]
    else:
        likely = [f"{one} ({who})" for one, who in LIKELY.items() if one != encoding and decodes(line, one)]
    return ValueError(
        f"{name}, line {number}, is not {encoding.upper()}. Save the file as UTF-8, or name its encoding with "
        f"--encoding (encoding=...): this line may be {' or '.join(likely) or 'latin-1'}. "
        f"Received: {_undecoded(line, encoding)!r}"
    )


def without_mark(name: str, encoding: str) -> ValueError:
    """The error for a file that should begin with a byte order mark."""
    return ValueError(
        f"{name} has no byte order mark, but a file in {encoding.upper()} begins with one. Leave out --encoding "
        f"(encoding=...) if it is in UTF-8, or name {encoding}-le or {encoding}-be. Received: encoding={encoding!r}"
    )


def _undecoded(line: bytes, encoding: str) -> bytes:
    """Where a line is not in this encoding."""
    try:
        line.decode(encoding)
    except UnicodeDecodeError as error:
        return line[max(error.start - 10, 0) : error.start + 20]
    return line[:30]


def decodes(line: bytes, encoding: str) -> bool:
    """Whether a line may be in this encoding."""
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
