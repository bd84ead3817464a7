"""Every error says what happened, where, and what to do; every text that people read is in plain English."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("keras_bert", "keras_bert_cli") for path in (ROOT / folder).rglob("*.py"))
PAGES = sorted(
    [*ROOT.glob("docs/*.md"), *ROOT.glob("keras_bert/**/*.template"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
)

# Errors that no user reads as they are.
EXCEPTIONS = {
    "AttributeError": "the wording is Python's own",
    "BadZipFile": "the caller adds the file and what to do",
    "ConnectionError": "the caller tries again, and at the end adds the address and what to do",
    "EOFError": "the caller adds the file and what to do",
}
FUNCTIONS = {
    "keras_bert/tasks/readers/squad.py:_entries": "the caller adds the file and what to do",
    "keras_bert/text/numpy_ragged.py:ragged_constant": "the caller adds the argument and what to do",
}

# Words that read like a translation, and what to write instead.
PLAIN = {
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\banew\b": "again",
    r"\btells\b|\btold\b": "reports, prints, shows, warns",
    r"\b(stands?|stood)\b(?! for\b| in for\b|-)": "is in, see",
    r"\bparted\b|\bwhat parts\b|\bparts (it|them)\b|\bapart by\b": "splits, separated by",
    r"\bgo(es)? on\b|\bwent on\b|\bgone on\b": "resumes, continues",
    r"(?<!there )\b(is|are) (?-i:none)\b": "the noun: an empty batch, invalid base64",
    r"\bmust be whole\b(?! numbers)": "is damaged, incomplete or truncated",
    r"\balone\b": "only",
    r"\bbehind\b": "after",
    r"\bwhichever\b": "the noun",
    r"\btill\b": "until",
    r"\bbe it\b": "if",
    r"\bthereof\b": "of it",
    r"\b(honest|lean)\b": "the fact and its figure",
}


def _name(path):
    return str(path.relative_to(ROOT))


def _text(node):
    """The text of a literal, with {} for each value; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_text(side) for side in (node.left, node.right)]
        return None if parts == [None, None] else "".join(part or "{}" for part in parts)
    return None


def _errors(node, place):
    """The line and the message of each error, as a literal where the user reads it."""
    if isinstance(node, ast.FunctionDef):
        place = f"{place.partition(':')[0]}:{node.name}"
    if isinstance(node, ast.Call) and node.args:
        kind, text = ast.unparse(node.func).rpartition(".")[2], _text(node.args[0])
        if kind.endswith(("Error", "BadRequest", "BadParameter", "BadZipFile")) and text:
            own = text.replace("{}", "").split(". ")[0]
            if kind not in EXCEPTIONS and place not in FUNCTIONS and len(own.split()) > 2:  # else others wrote the text
                yield node.lineno, text
    for child in ast.iter_child_nodes(node):
        yield from _errors(child, place)


def _prose(path):
    """The line and the text of all that people read in a file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    for node in ast.walk(tree):
        if id(node) not in inside and (text := _text(node)) and " " in text:
            yield node.lineno, text


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_errors(path):
    wrong = []
    for line, text in _errors(ast.parse(path.read_text(encoding="utf-8")), _name(path)):
        sentences = re.split(r"(?<=[.?!;])\s+(?=\S)", text)
        if len(sentences) < 2 and "Received: " not in text:
            wrong.append(f"{line}: says only what happened, neither what to do nor what was received: {text}")
        # A value, a quoted name, an option, an argument such as seq_length or x.take(), a column or x or y.
        if not re.search(r"\{\}|`.+?`|'.+?'|\".+?\"|--\w|[a-z]_[a-z]|\w\(|\b[xy]\b|[A-Z]{3}|Received: ", text):
            wrong.append(f"{line}: names no argument, option, file, row or value: {text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=_name)
def test_plain_english(path):
    wrong = []
    for line, text in _prose(path):
        for pattern, better in PLAIN.items():
            if found := re.search(pattern, text, re.IGNORECASE):
                wrong.append(f"{_name(path)}:{line}: {found[0]!r}, write: {better}")
    assert not wrong, "\n".join(wrong)
