"""The readers of tables, on the shared data and on small files, and what each says of a bad one."""

import json
import re
import tracemalloc

import pytest

from keras_bert.tasks.readers import (
    Reading,
    read_choices,
    read_labels,
    read_scores,
)
from keras_bert.tasks.task import Task


def test_columns_by_name_and_number(write):
    path = write("a.tsv", 'id\tdocument\tlabel\r\n1\tsay "no\t1\r\n2\t둘 다\t0\r\n')
    named = read_labels(path, "document", "label")
    assert (named.x, named.y) == (['say "no', "둘 다"], ["1", "0"])
    assert named.place(1) == f"{path}:3"
    numbered = read_labels(path, 1, 2, header=True)
    assert (numbered.x, numbered.y) == (named.x, named.y)
    assert read_labels(path, 1, None).x == ["document", *named.x]  # no column named, so no header


def test_formats_agree(write):
    rows = [('a, "b"', "second line", "yes"), ("c", "d", "no")]
    tsv = write("a.tsv", "one\ttwo\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
    csv = write("a.csv", 'one,two,label\n"a, ""b""",second line,yes\nc,d,no\n')
    jsonl = write(
        "a.jsonl", "".join(json.dumps(dict(zip(("one", "two", "label"), row, strict=True))) + "\n" for row in rows)
    )
    for path in (tsv, csv, jsonl):
        examples = read_labels(path, ("one", "two"))
        assert examples.x == ([rows[0][0], "c"], ["second line", "d"])
        assert examples.y == ["yes", "no"]


def test_csv_rows_of_many_lines_are_named_by_their_first(write):
    path = write("a.csv", '\ufefftext,label\n"one\n\ntwo",a\nthree,\n')
    assert read_labels(path, label=None).x == ["one\n\ntwo", "three"]
    with pytest.raises(ValueError, match=r"a.csv, line 5: column 'label' has no label.*Received: ''"):
        read_labels(path)


def test_long_field(write):
    text = "word " * 60_000
    assert read_labels(write("a.csv", f"{text},x\n"), 0, 1).x == [text]


def test_many_labels_of_a_text(write):
    assert read_labels(write("a.tsv", "x\ta,b\ny\t,\n"), 0, 1, separator=",").y == [["a", "b"], []]
    with pytest.raises(ValueError, match=r"line 2: column 1 has no label\. Fill it in, or write only ',' if"):
        read_labels(write("empty.tsv", "x\ta,b\ny\t\n"), 0, 1, separator=",")
    lists = write("a.jsonl", '{"text": "x", "label": ["a", 2]}\n{"text": "y", "label": []}\n')
    assert read_labels(lists).y == [["a", "2"], []]
    for other, message in (
        ('"a"', "has no list of labels"),
        ("[null]", "has no label"),
        ("null", "has no list of labels"),
    ):
        path = write("b.jsonl", lists.read_text() + f'{{"text": "z", "label": {other}}}\n')
        with pytest.raises(ValueError, match=rf"b.jsonl, line 3: column 'label' {message}"):
            read_labels(path)


def test_whole_numbers_that_pandas_writes_with_a_zero(write):
    rows = read_labels(write("a.csv", "text,label\nx,1.0\ny,0.0\n"))
    assert rows.y == read_labels(write("a.jsonl", '{"text": "x", "label": 1.0}\n{"text": "y", "label": 0}\n')).y
    assert rows.y == ["1", "0"]


def test_some_rows(write):
    rows = read_labels(write("a.tsv", "a\tb\tx\nc\td\ty\ne\tf\tz\n"), (0, 1), 2)[1:]
    assert (rows.x, rows.y, len(rows)) == ((["c", "e"], ["d", "f"]), ["y", "z"], 2)
    assert rows.place(0).endswith("a.tsv:2")
    with pytest.raises(TypeError, match="Use a slice"):
        list(rows)


def test_choices(write):
    examples = read_choices(write("a.csv", "start,end0,end1,label\np,q,r,1\n"), "start", ("end0", "end1"))
    assert examples.x == (["p"], [["q", "r"]])
    assert examples.y == [1]


def test_empty_texts_are_left_out_when_told(write, caplog):
    path = write("a.tsv", "text\tlabel\nx\t1\n\t0\ny\t1\n")
    with pytest.raises(ValueError, match=r"a.tsv, line 3: column 'text' has no text.*skip_empty=True\). Received: ''"):
        read_labels(path)
    examples = read_labels(path, skip_empty=True)
    assert (examples.x, examples.ids) == (["x", "y"], [2, 4])
    assert "Dropped 1 row with an empty text, the first at" in caplog.text
    assert "a.tsv:3" in caplog.text


def test_names_of_digits(write, caplog):
    """The command line makes numbers of them."""
    path = write("a.csv", "id,2020,1\n7,good,bad\n")
    rows = read_labels(path, 1, 2020, header=True)
    assert (rows.x, rows.y) == (["good"], ["good"])
    assert "column 1 is read by its number, and is called '2020'. There is also a column called '1'" in caplog.text
    assert read_labels(path, 0, None, header=True).x == ["7"]
    assert read_labels(write("b.jsonl", '{"2020": "yes", "text": "film"}\n'), "text", 2020).y == ["yes"]
    assert read_labels(write("c.csv", "text,1,1\na,b,c\n"), 1, None, header=True).x == ["b"]


BAD_TABLES = {
    "a column that is not there": (
        "a.tsv",
        "id\tdocument\tlabel\n1\tx\ty\n",
        "a.tsv has no column 'text'. Name .*: 'id', 'document', 'label'. Received: 'text'",
    ),
    "uneven": (
        "a.tsv",
        "text\tlabel\nx\ty\nx\n",
        "a.tsv, line 3: .* has 1 column, but the first row has 2.*Received: 1 column",
    ),
    "an empty file": ("a.tsv", "", "a.tsv is empty"),
    "a header alone": ("a.tsv", "text\tlabel\n", "a.tsv has no rows"),
    "no text": ("a.csv", "text,label\n ,x\n", "a.csv, line 2: column 'text' has no text.*Received: ' '"),
    "null": ("a.jsonl", '{"text": null, "label": "x"}\n', "a.jsonl, line 1: column 'text' has no text.*Received: None"),
    "a key left out": (
        "a.jsonl",
        '{"text": "x", "label": "x"}\n{"label": "x"}\n',
        "a.jsonl, line 2: column 'text' has no text",
    ),
    "NaN": (
        "a.jsonl",
        '{"text": NaN, "label": "x"}\n',
        "a.jsonl, line 1: the text in column 'text' is not a string.*Received: nan",
    ),
    "no label": ("a.csv", "text,label\nx,\n", "a.csv, line 2: column 'label' has no label.*Received: ''"),
    "floats": (
        "a.csv",
        "text,label\nx,1\ny,3.5\n",
        "a.csv, line 3: column 'label' has a label that is neither a name nor a whole number.*Received: '3.5'",
    ),
    "JSON floats": (
        "a.jsonl",
        '{"text": "x", "label": 1.5}\n',
        "column 'label' has a label that is neither a name nor a whole number.* or in embed for pairs.*Received: 1.5",
    ),
    "a JSON array": ("a.jsonl", '[{"text": "x", "label": "y"}]\n', "is not a JSON object.*one object on each line"),
    "JSON infinity": ("a.jsonl", '{"text": "x", "label": -Infinity}\n', "neither a name nor a whole number.*-inf"),
    "a name twice": (
        "a.jsonl",
        '{"text": "x", "text": "y", "label": "x"}\n',
        "Line 1 of .*a.jsonl is not valid JSON.*Received: the name 'text' twice",
    ),
    "a label that is NaN": ("a.jsonl", '{"text": "x", "label": NaN}\n', "column 'label' has no label.*Received: nan"),
    "an open quote": (
        "a.csv",
        'text,label\nx,y\n"z,y\nx,y\n',
        "a.csv, line 3: the row that begins here has wrong quotes. Close them",
    ),
    "a carriage return": ("a.csv", "text,label\nx\ry,z\n", "a.csv, line 2: .*has a carriage return outside of quotes"),
    "no JSON": ("a.jsonl", "text\n", "is not valid JSON.*--skip-bad.*Expecting.*a.jsonl:1"),
    "JSON that is cut off": (
        "a.jsonl",
        '{"text": "a\n',
        "Received: Unterminated string starting in column 10 at",
    ),
    "no object": ("a.jsonl", "1\n", "a.jsonl, line 1, is not a JSON object"),
    "deep JSON": ("a.jsonl", '{"text": "x", "label": "x"}\n' + "[" * 100_000, "too deeply at .*a.jsonl:2"),
    "half a character": ("a.jsonl", '{"text": "\\ud800", "label": "x"}\n', "surrogate pair.* at .*a.jsonl:1"),
    "another encoding": (
        "a.tsv",
        "text\tlabel\nx\t1\n영화\t1\n".encode("cp949"),
        r"a.tsv, line 3, is not UTF-8.*Received: b'\\xbf\\xb5\\xc8\\xad\\t1\\n'",
    ),
    "a JSON file": ("a.json", "[]", "The format of .*a.json is unknown.*Write the rows of a .json file as .jsonl"),
    "a list in JSONL": ("a.jsonl", "[\n", "Line 1 of .* is not valid JSON. Write one object on each line"),
    "another suffix": ("a.doc", "x", "The format of .*a.doc is unknown. Give the option .*label-text.*: format=None"),
    "a gzip file": ("a.txt.gz", "x", "The format of .*a.txt.gz is unknown.*Unpack a gzip file first"),
    "a workbook": ("a.xlsx", "x", "The format of .*a.xlsx is unknown.*Save the sheet of an Excel workbook as CSV"),
    "a workbook by another name": ("a.csv", b"PK\x03\x04\xff\n", "a.csv is not text, but a ZIP archive or an Excel"),
    "gzip": ("a.csv", b"\x1f\x8b\x08\x00\xff\n", "a.csv is not text, but a gzip file. Unpack it"),
    "a label alone": ("a.txt", "1 good\n1\n", "a.txt, line 2, is not a label, a space and a text.*Received: '1'"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables(write, case):
    name, text, message = BAD_TABLES[case]
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        read_labels(write(name, text))


def test_a_file_that_is_not_there():
    with pytest.raises(FileNotFoundError, match=r"There is no file at nothing\.tsv\. Correct the path"):
        read_labels("nothing.tsv")


def test_another_column_of_labelled_lines(write):
    with pytest.raises(ValueError, match=r"no column 'name'.*Each of its lines is read as a label, a space and a text"):
        read_labels(write("a.txt", "so good\n"), "name")


@pytest.mark.parametrize("value", ["", "high", "nan", "inf", "1e40"])
def test_bad_scores(write, value):
    with pytest.raises(ValueError, match=r"a.csv, line 3: the score in column 'score' is not a finite"):
        read_scores(write("a.csv", f"text,score\nx,1.5\ny,{value}\n"))


def test_a_score_that_no_float_holds(write):
    with pytest.raises(ValueError, match=r"a.jsonl, line 1: the score in column 'score' is not a finite"):
        read_scores(write("a.jsonl", f'{{"text": "x", "score": 1{"0" * 400}}}'))


def test_objects_with_names_of_their_own_take_linear_memory(write):
    """2,000 rows of 2,000 other names are not a table of 4 million cells."""
    path = write("a.jsonl", "".join(f'{{"text": "x", "label": "{n % 2}", "extra{n}": 0}}\n' for n in range(2000)))
    tracemalloc.start()
    assert read_labels(path, "text", "label").y == ["0", "1"] * 1000
    assert tracemalloc.get_traced_memory()[1] < 8e6
    tracemalloc.stop()


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_scales(write, scale):
    with pytest.raises(ValueError, match="`scale` must be above 0 and finite"):
        read_scores(write("a.csv", "text,score\nx,1.5\n"), scale=scale)


@pytest.mark.parametrize("value", ["2", "-1", "a", "1.0"])
def test_bad_choices(write, value):
    with pytest.raises(
        ValueError, match=r"a.csv, line 2: the label in column .* is not the number of a choice, from 0 to 1"
    ):
        read_choices(write("a.csv", f"p,a,b,label\nx,y,z,{value}\n"), "p", ("a", "b"))


def test_shared_tables(shared):
    sst2 = read_labels(shared / "en/sst2.train.txt")
    assert (len(sst2), set(sst2.y)) == (6920, {"0", "1"})
    stsb = read_scores(shared / "en/stsb.dev.csv", (0, 1), 2)
    assert (len(stsb), min(stsb.y), max(stsb.y)) == (1500, 0.0, 5.0)
    assert stsb.x[0][1] == "A young child is riding a horse."
    assert len(read_labels(shared / "ko/nsmc20k.tsv", "document", "label", skip_empty=True)) == 19_999
    korsts = read_scores(shared / "ko/korsts.train.tsv", ("sentence1", "sentence2"), "score")
    assert (len(korsts), len(korsts.x[0]), len(korsts.x[1])) == (5749, 5749, 5749)
    kornli = read_labels(shared / "ko/kornli.dev.tsv", ("sentence1", "sentence2"), "gold_label")
    assert (len(kornli), set(kornli.y)) == (2490, {"entailment", "neutral", "contradiction"})


@pytest.mark.parametrize("name", ["cr.tsv", "cr.txt", "cr.conll", "cr.csv"])
def test_lines_that_end_in_cr(write, name):
    path = write(name, "text\tlabel\rgood\t1\r\rbad\t0\r")
    task = Task.named("tag" if name == "cr.conll" else "classify")
    with pytest.raises(ValueError, match=r"line 1, has a CR inside.*LF or CRLF.*:1"):
        task.read_rows(path, Reading())
