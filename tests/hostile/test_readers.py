"""Readers of labelled files: they return rows or one clear error, in linear memory."""

import contextlib
import csv
import io
import json
import tempfile
import tracemalloc
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.tasks.readers import (
    read_choices,
    read_conll,
    read_conllu,
    read_klue_ner,
    read_labels,
    read_scores,
    read_squad,
)
from tests.hostile.inputs import byte_texts, json_values, leaves, texts
from tests.hostile.profile import hostile

READERS = {
    "labels.tsv": lambda path: read_labels(path, 0, 1),
    "labels.csv": lambda path: read_labels(path, 0, 1),
    "labels.jsonl": lambda path: read_labels(path, "text", "label"),
    "separated.jsonl": lambda path: read_labels(path, "text", "label", separator=",", skip_empty=True),
    "scores.jsonl": lambda path: read_scores(path, "text", "label"),
    "scores.tsv": lambda path: read_scores(path, 0, 1),
    "choices.jsonl": lambda path: read_choices(path, "text", ["text", "text"], "label"),
    "choices.csv": lambda path: read_choices(path, 0, [0, 0], 1),
    "labels.txt": lambda path: read_labels(path, "text", "label"),
    "conll": read_conll,
    "conllu": read_conllu,
    "klue": read_klue_ner,
    "squad.json": read_squad,
}
_FOLDER = tempfile.TemporaryDirectory()


def read(name, content):
    path = Path(_FOLDER.name) / name
    path.write_bytes(content)
    return READERS[name](path)


def check_reader(name, content):
    """Rows, or a ValueError that names the file and what it received."""
    try:
        rows = read(name, content)
    except ValueError as error:
        said = str(error)
        assert name in said, said
        assert "Received: " in said, said
        assert "\n" not in said, said
    else:
        assert len(rows) > 0


names = st.sampled_from(sorted(READERS))
cells = st.one_of(
    byte_texts,
    st.sampled_from([b"1", b"O", b"B-PER", b"0.5", b"1e999", b'"', b"\xef\xbb\xbf", b"-DOCSTART-", b"9" * 5000]),
)
lines = st.lists(st.lists(cells, min_size=1, max_size=3), max_size=6)


@hostile(300)
@given(names, lines, st.sampled_from([b"\t", b",", b" "]), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_lines(name, lines, separator, end):
    check_reader(name, end.join(separator.join(cells) for cells in lines))


anything = json_values(["text", "label", "other"])
objects = st.one_of(anything, st.fixed_dictionaries({"text": texts, "label": st.one_of(leaves, anything)}))


@hostile(400)
@given(st.sampled_from([name for name in READERS if name.endswith("jsonl")]), st.lists(objects, max_size=5))
def test_json_lines(name, objects):
    check_reader(name, "\n".join(map(json.dumps, objects)).encode())


answer = st.fixed_dictionaries(
    {"text": st.one_of(st.just("text"), leaves), "answer_start": st.one_of(st.just(2), leaves)}
)
question = st.fixed_dictionaries(
    {"question": st.one_of(st.just("Why?"), leaves), "answers": st.lists(answer, max_size=2)},
    optional={"id": leaves, "is_impossible": leaves},
)


@hostile(200)
@given(st.lists(st.one_of(question, json_values(["question", "id", "answers", "text"])), min_size=1, max_size=3))
def test_squad(entries):
    data = {"data": [{"paragraphs": [{"context": "a text", "qas": entries}]}]}
    check_reader("squad.json", json.dumps(data).encode())


words = st.text(
    st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="\r\n\ufeff"), min_size=1, max_size=20
)


def is_seen(text):
    """Whether it is no empty text, as one of spaces, control characters and zero-width ones is."""
    return any(not one.isspace() and unicodedata.category(one) not in ("Cc", "Cf") for one in text)


@hostile(100)
@given(st.lists(st.tuples(words.filter(is_seen), st.sampled_from(["good", "bad"])), min_size=1, max_size=6))
def test_round_trip(rows):
    """What Python's own csv and json write is read as it was."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    objects = "\n".join(json.dumps({"text": text, "label": label}, ensure_ascii=False) for text, label in rows)
    for name, content in (("labels.csv", table.getvalue()), ("labels.jsonl", objects)):
        found = read(name, content.encode())
        assert list(zip(found.x, found.y, strict=True)) == rows


# Files of about `size` bytes that could take more memory than others.
LARGE = {
    "labels.jsonl": [
        lambda size: "\n".join(f'{{"text":"a","label":"b","{n}":0}}' for n in range(size // 32)),
        lambda size: "\n".join(['{"text":"a","label":"b"}'] * (size // 25)),
        lambda size: '{"text":"a","label":"b","c":' + "[" * 900 + "]" * 900 + "}" + "\n" * size,
    ],
    "labels.tsv": [lambda size: "a\tb\n" * (size // 4), lambda size: "\t" * size, lambda size: "a" * size + "\tb"],
    "labels.csv": [lambda size: "a,b\n" * (size // 4), lambda size: '"' + '""' * (size // 2) + '",b'],
    "conll": [
        lambda size: "a O\n" * (size // 4),
        lambda size: "a O\n\n" * (size // 5),
        lambda size: "a " * (size // 2),
    ],
    "klue": [lambda size: "a\tO\n" * (size // 4)],
    "squad.json": [
        lambda size: json.dumps({"data": [{"paragraphs": [{"context": "a" * size, "qas": []}] * 2}]}),
        lambda size: json.dumps(
            {"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": []}] * (size // 32)}]}]}
        ),
    ],
}


@pytest.mark.parametrize("name", LARGE)
def test_memory(name):
    for make in LARGE[name]:
        used = []
        for size in (16_000, 64_000, 256_000):
            content = make(size).encode()
            tracemalloc.start()
            with contextlib.suppress(ValueError):
                read(name, content)
            used.append(tracemalloc.get_traced_memory()[1] / len(content))
            tracemalloc.stop()
        assert max(used) <= 200, used
        assert all(larger <= 1.5 * smaller + 10 for smaller, larger in pairwise(used)), used
