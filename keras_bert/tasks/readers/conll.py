"""Words with their tags: CoNLL columns, CoNLL-U's parts of speech, KLUE's tag per character."""

import logging
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from keras_bert.tasks.decoding.entities import has_entities, stray_label
from keras_bert.tasks.readers.reading import Reading
from keras_bert.tasks.readers.rows import Rows, lines
from keras_bert.text_encoding import composed
from keras_bert.wording import plural

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

_OTHER_SUFFIXES = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")  # of files that are no CoNLL

_HANGUL = re.compile("[\uac00-\ud7a3]")  # syllables

logger = logging.getLogger("keras_bert")

Cells = tuple[int, list[str]]  # of a line, with its number


def read_conll(path: str | os.PathLike, *, word: int = 0, tag: int | None = -1, encoding: str = "utf-8") -> Rows:
    """Sentences separated by blank lines. A line is a word and its other columns, separated by tabs, or else by spaces.

    word, tag: numbers of the columns, from 0; -1 is the last. With tag=None only the words are read.
    """
    rows = list(_lines(path, encoding))
    found = _sentences(path, rows, word, tag)
    stray = stray_label(dict.fromkeys(label for labels in found.y for label in labels))
    if tag is not None and stray is not None:
        number = next(
            number for number, row in rows if row and row[0] != "-DOCSTART-" and composed(row[tag].strip()) == stray
        )
        raise ValueError(
            f"{path}, line {number}: this tag has no prefix such as 'B-', but other tags have one. Correct the "
            f"line, or name another column. Received: {stray!r}"
        )
    return found


def read_conllu(path: str | os.PathLike, *, tag: str | None = "upos", encoding: str = "utf-8") -> Rows:
    """Words of a CoNLL-U file with one of its other columns: the part of speech, unless `tag` names another.

    Only syntactic words are read, as in Universal Dependencies' own scoring: words written together (`3-4`) and words
    that are not written (`3.1`) are dropped.
    """
    if tag is not None and tag not in CONLLU_COLUMNS:
        raise ValueError(f"`tag` must be a column of CoNLL-U: {', '.join(CONLLU_COLUMNS)}. Received: tag={tag!r}")
    rows = ((number, row) for number, row in _lines(path, encoding, "#") if not row or row[0].isdigit())
    return _sentences(path, rows, 1, None if tag is None else CONLLU_COLUMNS.index(tag), width=len(CONLLU_COLUMNS))


def read_klue_ner(path: str | os.PathLike, *, encoding: str = "utf-8") -> Rows:
    """Texts of a KLUE-NER file, which has a tag for each character, and their entities as (start, end, type).

    A syllable that is split into its letters (NFD), as some programs on macOS write it, is joined.
    """
    characters = _sentences(path, _joined(_lines(path, encoding, "##")), 0, 1, width=2, spaces=True)
    texts = ["".join(sentence) for sentence in characters.x]
    y = []
    for row, (sentence, tags) in enumerate(zip(characters.x, characters.y, strict=True)):
        if any(len(character) != 1 for character in sentence):
            raise ValueError(
                f"{characters.place(row)}: the sentence that begins here has a line with several characters before the "
                "tag, where KLUE-NER has one. If the file has words, use read_conll (--format conll). "
                f"Received: {''.join(sentence[:20])!r}"
            )
        if stray := next((tag for tag in tags if tag != "O" and not has_entities([tag])), None):
            raise ValueError(
                f"{characters.place(row)}: the sentence that begins here has a tag that is neither 'O' nor a prefix "
                f"with a type, such as 'B-PS'. Correct it. Received: {stray!r}"
            )
        y.append(_spans(tags))
    return Rows(texts, y, characters.path, characters.ids, characters.unit)


def tagged_rows(path: str | os.PathLike, reading: Reading, *, labels: bool = True) -> Rows:
    """Words with tags, or texts with entities."""
    if reading.format == "klue-ner":
        return read_klue_ner(path, encoding=reading.encoding)
    if reading.format == "conllu" or (reading.format is None and Path(path).suffix.lower() == ".conllu"):
        return read_conllu(path, tag="upos" if labels else None, encoding=reading.encoding)
    if reading.format is None and (suffix := Path(path).suffix.lower()) in _OTHER_SUFFIXES:
        raise ValueError(
            f"{path} has the suffix {suffix}, but a tagger reads CoNLL: a word on each line, a blank line after each "
            "sentence. Give it another suffix if it is CoNLL. To tag texts, put one on each line of a .txt file. "
            f"Received: {path}"
        )
    rows = read_conll(path, tag=-1 if labels else None, encoding=reading.encoding)
    if reading.format is None and len(rows) == 1:
        _refuse_texts(rows)
    if labels and all(len(composed(word)) == 1 for words in rows.x for word in words):
        _warn_of_syllables(rows)
    return rows


def _refuse_texts(rows: Rows) -> None:
    """Refuse a table of texts, which would be read as one sentence whose words are the texts."""
    texts = [word for word in rows.x[0] if " " in word]
    if 2 * len(texts) > len(rows.x[0]):
        raise ValueError(
            f"{rows.path} looks like a table of texts: it has no blank line after a sentence, and its words have "
            "spaces. Put one word on each line, or train `finetune classify`. If it has one word on each line, add "
            f"--format conll. Received: {texts[0][:80]!r} as a word"
        )


def _warn_of_syllables(rows: Rows) -> None:
    """Warn of a file with one Hangul syllable on a line: the model would read texts whose words have one syllable."""
    if any(_HANGUL.fullmatch(composed(word)) for words in rows.x for word in words):
        logger.warning(
            "Every word of %s is a single character. The task learns that Korean words have one syllable, so it "
            "will tag ordinary texts badly. If each line is a character of a text, give the spaces between words a "
            "line too, with the tag O, and pass --format klue-ner (read_klue_ner).",
            rows.path,
        )


def _lines(path: str | os.PathLike, encoding: str, comment: str | None = None) -> Iterator[Cells]:
    for number, line in lines(path, encoding):
        if comment is None or not line.startswith(comment):
            # A tab may separate a space from its tag, so only a line without tabs is split at spaces.
            yield number, [] if not line.strip() else line.split("\t") if "\t" in line else line.split()


def _joined(rows: Iterable[Cells]) -> Iterator[Cells]:
    """The same cells, but a first cell that is one character in Unicode's form NFC is in that form."""
    for number, row in rows:
        yield number, [composed(row[0]), *row[1:]] if row and len(composed(row[0])) == 1 else row


def _sentences(
    path: str | os.PathLike,
    rows: Iterable[Cells],
    word: int,
    tag: int | None,
    width: int | None = None,
    spaces: bool = False,
) -> Rows:
    words: list[list[str]] = [[]]
    tags: list[list[str]] = [[]]
    begins: list[int] = []
    for number, row in rows:
        if not row or row[0] == "-DOCSTART-":
            if words[-1]:
                words.append([])
                tags.append([])
            continue
        width = width or len(row)
        if len(row) != width:
            columns = f"{len(row)} {plural('column', len(row))}"
            raise ValueError(
                f"{path}, line {number}, has {columns} instead of {width}. Correct the line, or name the "
                f"file's --format (conllu, klue-ner). Received: {columns}"
            )
        if tag is not None and width == 1:
            raise ValueError(
                f"{path}, line {number}, has a word but no tag. Add the column of the tags. Received: {row[0]!r}"
            )
        if not words[-1]:
            begins.append(number)
        words[-1].append(_cell(path, number, row, word, "word"))
        if not spaces and not words[-1][-1].strip():
            raise ValueError(
                f"{path}, line {number}: the word is white space. Correct the line; for a file with one character on a "
                f"line, use --format klue-ner (read_klue_ner). Received: {words[-1][-1]!r}"
            )
        if tag is not None:
            tags[-1].append(_cell(path, number, row, tag, "tag"))
    if not begins:
        raise ValueError(f"{path} has no sentences. Name another file. Received: {path}")
    count = len(begins)
    return Rows(words[:count], [] if tag is None else tags[:count], str(path), begins, "line")


def _cell(path: str | os.PathLike, number: int, row: list[str], column: int, what: str) -> str:
    if not -len(row) <= column < len(row):
        raise ValueError(
            f"{path}, line {number}, has no column {column} for the {what}. Use a number from 0 to {len(row) - 1}. "
            f"Received: {what}={column}"
        )
    cell = row[column] if what == "word" else composed(row[column].strip())  # in KLUE-NER, a space is a word
    if not cell:
        raise ValueError(f"{path}, line {number}: the {what} is empty. Correct the line. Received: {row[column]!r}")
    return cell


def _spans(tags: list[str]) -> list[tuple[int, int, str]]:
    """Entities of BIO tags by seqeval's rule: an I- tag begins an entity unless it follows a tag of its own type."""
    spans: list[tuple[int, int, str]] = []
    previous = "O"
    for place, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if prefix == "I" and previous.partition("-")[2] == kind:
            spans[-1] = (spans[-1][0], place + 1, kind)
        elif prefix != "O":
            spans.append((place, place + 1, kind))
        previous = tag
    return spans
