"""Documents to sentences, by rules for Latin and Korean script that work on texts with both.

Headings, bullets, rules and emphasis in markdown are dropped, and everything in a wiki page that is not prose.
"""

import re
from collections.abc import Iterator

from keras_bert.corpus.documents import Document, split_at_headings
from keras_bert.corpus.wikipedia import plain_text

SENTENCES = ("rules", "line")

# The search looks for the first character, which every sentence end has; the alternatives check what is around it. A
# run of marks is only tried at its beginning, and as a whole, because a text can be nothing but marks.
_END = re.compile(
    r"""[.!?…。！？다요ㅋㅎㅠㅜ](?:
        (?<=[.!?…])(?<![.!?…]{2})[.!?…]*+["'”’»)\]」』*_]*+(?=\s+[^\sa-zà-ÿ])  # a space, then no lower-case letter
      | (?<=[.!?])(?<![.!?]{2})[.!?]*+(?=[가-힣])                 # Hangul without a space: 했다.그리고
      | (?<=[。！？])[。！？]*[”’」』）]*                          # full-width marks
      | (?<=니다|[아어여해네세지]요)(?=\s+(?!라고|라는|하고|하며)\S)  # Korean endings without a mark
      | (?<=[ㅋㅎㅠㅜ])(?<![ㅋㅎㅠㅜ]{2})[ㅋㅎㅠㅜ]++(?=\s)          # ㅋㅋㅋ
    )""",
    re.VERBOSE,
)
_ABBREVIATIONS = frozenset((
    "mr", "mrs", "ms", "messrs", "mme", "mlle", "dr", "prof", "rev", "hon", "st", "gen", "col", "capt", "lt", "sgt",
    "maj", "cmdr", "adm", "gov", "sen", "rep", "pres", "vs", "etc", "fig", "figs", "vol", "vols", "ch", "pp", "cf",
    "ed", "eds", "approx", "dept", "univ", "inc", "ltd", "co", "corp", "bros", "jan", "feb", "mar", "apr", "jun",
    "jul", "aug", "sep", "sept", "oct", "nov", "dec", "e.g", "i.e", "viz", "al",
))  # fmt: skip
_BEFORE_NUMBERS = frozenset(("no", "nos", "p", "art", "sec"))
_LAST_WORD = re.compile(r"\S*\Z")
_LOOK_BACK = 40  # characters before a full stop; an abbreviation and the marks before it are shorter
_BLANK = re.compile(r"\n\s*\n")
_RULE = re.compile(r"\s*([-*_=]\s*){3,}$")
_BULLET = re.compile(r"\s*(?:>\s*)*(?:[-*+]\s+|\d{1,3}[.)]\s+)?")
_MARKS = re.compile(r"(?<!\w)[*_]{1,3}")


def sentences_of(document: Document, rule: str = "rules") -> Iterator[str]:
    """The sentences of a document.

    rule: "rules" splits at the ends of sentences; "line" takes each line as one sentence.

    >>> list(sentences_of(Document("Dr. No came in. He sat down.\\n밥을 먹었다.그리고 잤다.", "lines")))
    ['Dr. No came in.', 'He sat down.', '밥을 먹었다.', '그리고 잤다.']
    """
    for paragraph in _paragraphs(document, rule):
        if rule == "line":
            yield from (line.strip() for line in paragraph.split("\n") if line.strip())
        else:
            yield from split_sentences(paragraph)


def split_sentences(text: str) -> Iterator[str]:
    """The sentences of one paragraph."""
    begin = 0
    for match in _END.finditer(text):
        if not _is_within_sentence(text, match):
            if sentence := text[begin : match.end()].strip():
                yield sentence
            begin = match.end()
    if sentence := text[begin:].strip():
        yield sentence


def _is_within_sentence(text: str, match: re.Match[str]) -> bool:
    """Whether a full stop belongs to an abbreviation or an initial, or is inside a Latin word or a number."""
    start = match.start()
    if text[match.end() : match.end() + 1].strip() and text[start] in ".!?":  # no space after it
        return not "가" <= text[start - 1 : start] <= "힣"
    if text[start] != "." or match.end() - start > 1:
        return False
    word = _LAST_WORD.search(text, max(0, start - _LOOK_BACK), start)[0].lstrip("\"'“‘([*_-")  # type: ignore[index]
    if len(word) == 1:
        return word.isupper() and word != "I"
    word = word.lower()
    return word in _ABBREVIATIONS or (word in _BEFORE_NUMBERS and text[match.end() : match.end() + 2].strip().isdigit())


def _paragraphs(document: Document, rule: str) -> Iterator[str]:
    text, form = document.text, document.form
    if form == "wikipedia":
        text, form = plain_text(text, document.namespaces), "lines"
    if form == "lines":
        yield from text.split("\n")
        return
    if form == "markdown" and any(mark in f"\n{text}" for mark in ("\n#", "\n=", "\n-")):  # few documents have one
        text = "\n\n".join("\n".join(part) for part in split_at_headings(text.split("\n")))
    joint = "\n" if rule == "line" else " "
    for block in _BLANK.split(text):
        lines = block.split("\n")
        if form == "markdown":
            lines = [_without_markup(line) for line in lines if not _RULE.match(line)]
        yield joint.join(lines)


def _without_markup(line: str) -> str:
    line = line[_BULLET.match(line).end() :]  # type: ignore[union-attr]  # it matches the empty string too
    if "](" in line:
        line = _without_addresses(_without_addresses(line, "!["), "[")  # a link can be around a picture
    return _without_emphasis(line) if "*" in line or "_" in line else line


def _without_addresses(line: str, opening: str) -> str:
    """The line without pictures (`opening` is `![`), or with the texts of links in their place (`[`)."""
    parts, done, place = list[str](), 0, 0
    while (opens := line.find(opening, place)) >= 0 and (closes := line.find("]", opens)) >= 0:
        place = closes + 1
        if line[place : place + 1] == "(":
            if (end := line.find(")", place)) < 0:
                break  # and nothing after it is a link
            parts += line[done:opens], line[opens + 1 : closes] if opening == "[" else ""
            done = place = end + 1
    return "".join((*parts, line[done:]))


def _without_emphasis(line: str) -> str:
    """The line without pairs of marks around words, of one to three characters.

    One expression for the whole pair would look for the end of each mark again. A line can be nothing but marks.
    """
    parts: list[str] = []
    unclosed: set[str] = set()  # marks that close nothing in the rest of the line
    done = place = 0
    while marks := _MARKS.search(line, place):
        place = marks.start() + 1
        for width in range(len(marks[0]), 0, -1):
            mark, begin = marks[0][:width], marks.start() + width
            if mark in unclosed or not line[begin : begin + 1].strip():
                continue
            if closing := re.compile(rf"(?<=\S){re.escape(mark)}(?!\w)").search(line, begin + 1):
                parts += line[done : marks.start()], line[begin : closing.start()]
                done = place = closing.end()
                break
            unclosed.add(mark)
    return "".join((*parts, line[done:]))
