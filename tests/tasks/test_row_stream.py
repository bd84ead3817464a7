"""A stream of rows has the rows, the targets and the errors of the reader that has all rows in memory."""

import dataclasses
import json
import re
import sys
import tracemalloc

import numpy as np
import pandas
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.tasks.multiple_choice import MultipleChoice
from keras_bert.tasks.readers import Reading, row_stream
from keras_bert.tasks.readers.parquet import parquet_lines
from keras_bert.tasks.run.split_rows import split_rows
from keras_bert.tasks.sentence_embedder import SentenceEmbedder
from keras_bert.tasks.text_classifier import TextClassifier
from keras_bert.tasks.text_regressor import TextRegressor
from keras_bert.tasks.token_tagger import TokenTagger

QUOTED = 'text,label\n"one, two",a\n"first\r\n\nsecond",b\nplain,a\n"say ""so""",b\n\nlast,a\n'
LINES = [{"text": f"film {number} é", "label": "ab"[number % 2]} for number in range(7)]
JSONL = "".join(json.dumps(line) + "\n" for line in LINES)
LISTS = "".join(json.dumps({"text": "x", "label": labels}) + "\n" for labels in (["a"], ["a", "b"], [], ["b", "a"]))
BAD = 'text,label\nx,1\n"z,1\ny,0\n,1\nw,\nv,1,2\n"u\nt",0\n'
EMPTY = '{"text": " ", "label": "a"}\n{"text": null, "label": "a"}\n'
FILES = {
    "quoted.csv": (QUOTED, {}),
    "mark.csv": ("\ufeff" + QUOTED, {}),
    "no-header.csv": ("\ufeff" + QUOTED.split("\n", 1)[1], {"text": (0,), "label": 1}),
    "crlf.tsv": ("text\tlabel\r\nx\ta\r\n\r\ny\tb\r\n", {}),
    "quoted.tsv": ('text\tlabel\n"x\ty"\ta\n"two\nlines"\tb\n', {}),
    "quotes-in-texts.tsv": ('text\tlabel\n"x" y\ta\n5" disc\tb\n', {}),
    "latin.csv": ("text;label\nété;a\nlà;b\n".encode("latin-1"), {"delimiter": ";", "encoding": "latin-1"}),
    "korean.tsv": ("text\tlabel\n영화\t1\n별로\t0\n".encode("cp949"), {"encoding": "cp949"}),
    "lines.jsonl": ("\ufeff" + JSONL + "\n" + '{"label": "c", "text": "later", "more": 1}\r\n', {}),
    "numbered.jsonl": (JSONL, {"text": (0,), "label": 1}),
    "lists.jsonl": (LISTS, {}),
    "separated.csv": ("text,label\nx,a|b\ny,\nz,b\n", {"separator": "|", "skip_bad": True}),
    "lines.txt": ("pos\ta good film\n\nneg a bad\tfilm\n", {}),
    "bars.dat": ("text|label\nx|1\ny|0", {"delimiter": "|"}),
    "bad.csv": (BAD, {"skip_bad": True}),
    "bad-or-empty.csv": (BAD, {"skip_bad": True, "skip_empty": True}),
    "bad.jsonl": ('{"text": "x", "label": "1"}\n[1]\n{\n{"text": 1, "label": "1"}\n' + JSONL, {"skip_bad": True}),
    "empty.jsonl": (EMPTY + JSONL + EMPTY, {"skip_empty": True}),
}


@pytest.fixture(autouse=True, params=[2, 1024])
def chunk(request, monkeypatch):
    monkeypatch.setattr(row_stream, "CHUNK", request.param)


def check_same(task, path, reading):
    """Both ways to read a file have the same rows, in any order."""
    expected, stream = task.read_training_rows(path, reading), task.stream_rows(path, reading)
    assert len(stream) == len(expected)
    order = np.random.default_rng(0).permutation(len(stream))
    for numbers in (np.arange(len(stream)), order):
        rows, wanted = stream.read(numbers), expected.take(numbers)
        assert (rows.x, rows.y) == (wanted.x, wanted.y)
    if not expected.y:
        assert (stream.codes.tolist(), stream.sample.y) == ([0] * len(stream), [])
    elif stream.numbers is None:
        assert [stream.sample.y[code] for code in stream.codes] == expected.y
        assert sorted(map(str, stream.sample.y)) == sorted(set(map(str, expected.y)))
    else:
        assert stream.numbers.tolist() == expected.y
    return stream


@pytest.mark.parametrize("name", FILES)
def test_the_rows_are_those_in_memory(write, caplog, name):
    data, reading = FILES[name]
    check_same(TextClassifier, write(name, data), Reading(**reading))
    dropped = [message for message in caplog.messages if message.startswith("Dropped")]
    assert dropped[: len(dropped) // 2] == dropped[len(dropped) // 2 :]  # both say the same


def test_scores_pairs_and_choices(write):
    scores = write("a.csv", "one,two,score\nx,y,1\nz,,2\nv,w,3.5\n")
    reading = Reading(text=("one", "two"), label="score", scale=5, skip_empty=True)
    stream = check_same(TextRegressor, scores, reading)
    assert (stream.sample.y, stream.codes.tolist()) == ([0.2, 0.7], [0, 0])
    choices = write("b.csv", "text,a,b,label\np,q,r,1\ns,t,u,0\n")
    check_same(MultipleChoice, choices, Reading(choices=("a", "b")))


def test_parquet(tmp_path):
    rows = pandas.DataFrame(LINES)
    rows.to_parquet(tmp_path / "a.parquet", row_group_size=3)
    stream = check_same(TextClassifier, tmp_path / "a.parquet", Reading(encoding="latin-1"))
    assert stream.read([6, 0]).x == [LINES[6]["text"], LINES[0]["text"]]
    rows.assign(label=[["a"], ["b"], [], ["a", "b"], [], [], []]).to_parquet(tmp_path / "b.parquet")
    check_same(TextClassifier, tmp_path / "b.parquet", Reading())
    in_bytes = rows.assign(text=rows["text"].str.encode("utf-8"), label=rows["label"].str.encode("utf-8"))
    in_bytes.to_parquet(tmp_path / "c.parquet")
    assert TextClassifier.stream_rows(tmp_path / "c.parquet", Reading()).read([0]).x == [LINES[0]["text"]]
    rows.assign(text="").to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match=r"empty\.parquet, row 1: column 'text' has no text"):
        TextClassifier.read_rows(tmp_path / "empty.parquet", Reading())
    in_bytes.assign(text=b"\xff").to_parquet(tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=r"d\.parquet, row 1: a column of bytes is not text"):
        TextClassifier.stream_rows(tmp_path / "d.parquet", Reading())


SENTENCES = {  # of which those without labels are pairs, with negatives or not, or only texts
    "labels.csv": ("text,label\nx,a\ny,a\nz,b\n", {}),
    "labels.txt": ("a x\nb y\n", {}),
    "scores.tsv": ("one\ttwo\tscore\nx\ty\t5\nz\tw\t1\nv\tu\t3\n", {"label": "score", "scale": 5}),
    "scores.csv": ("one,two,label\nx,y,0.5\nz,w,1\nv,u,-1\n", {}),
    "pairs.jsonl": ('{"one": "x", "two": "y"}\n' * 3 + '{"one": "x", "two": "z", "more": 1}\n', {}),
    "negatives.csv": ("one,two,three\nx,y,z\nz,y,y\nv,u,y\n", {"skip_bad": True}),
    "texts.txt": ("\ufeffgood film\r\n \n1 bad\tfilm\n\nso", {"lines": True}),
    "texts.dat": ("good film\n\nbad film\xff\nso\n".encode("latin-1"), {"lines": True, "skip_bad": True}),
    "texts.tsv": ("sentence\ngood film\nbad film\n", {}),
    "unnamed.csv": ('"good, film"\n"bad film"\n', {"header": False}),
    "texts.jsonl": ('{"text": "good film"}\n{"text": " "}\n{"text": "bad film"}\n', {"skip_empty": True}),
}
COLUMNS = {"labels": ("text",), "negatives": ("one", "two", "three")}


@pytest.mark.parametrize("name", SENTENCES)
def test_rows_of_a_sentence_embedder(write, caplog, name):
    caplog.set_level("INFO", "keras_bert")
    data, options = SENTENCES[name]
    stem, suffix = name.split(".")
    reading = Reading(text=COLUMNS.get(stem, ("one", "two")), **options)
    stream = check_same(SentenceEmbedder, write(name, data), reading)
    sample = stream.sample
    expected = {"pairs": (["x", "x"], ["y", "z"]), "negatives": (["x", "v"], ["y", "u"], ["z", "y"])}
    assert sample.x == expected.get(stem, sample.x)
    if stem == "scores":
        assert sample.y == ([0.2, 1.0] if suffix == "tsv" else [-1.0, 1.0])
    if stem in ("texts", "unnamed"):
        assert len(sample) == 2
    messages = [record.getMessage() for record in caplog.records]
    only_texts, pairs = 2 * (stem in ("texts", "unnamed")), 2 * (stem == "pairs")  # once for each way to read
    assert sum("Each text is learned as a match of itself" in message for message in messages) == only_texts
    assert sum("so the two texts of each pair count as a match" in message for message in messages) == pairs


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        ("one two", '{"one": "x", "two": "y", "label": 0}\n', r"line 1025: the row has a column that .*'label'$"),
        ("text", '{"text": "x", "label": "a"}\n', r"line 1025: .* Give all rows the same columns,.*'text', 'label'$"),
    ],
)
def test_rows_that_are_unlike_the_first(write, text, data, message):
    """Whether they have labels was decided before; later rows that have some are an error, or are dropped."""
    first = json.dumps(dict.fromkeys(text.split(), "good")) + "\n"
    path, reading = write("a.jsonl", first * 1024 + data + first * 2), Reading(text=tuple(text.split()))
    with pytest.raises(ValueError, match=message):
        SentenceEmbedder.stream_rows(path, reading)
    stream = SentenceEmbedder.stream_rows(path, dataclasses.replace(reading, skip_bad=True))
    assert len(stream) == len(stream.read(range(1026))) == 1026


def test_pairs_by_number(write, caplog):
    """Whether the first row has names is asked for, or said."""
    path = write("a.tsv", "x\ty\nz\tw\n")
    with pytest.raises(ValueError, match=r"named by number, so its first row may be names or texts\. Pass header="):
        SentenceEmbedder.stream_rows(path, Reading(text=(0, 1)))
    for header, rows in ((True, 1), (False, 2)):
        caplog.clear()
        assert len(check_same(SentenceEmbedder, path, Reading(text=(0, 1), header=header))) == rows
        assert ("If it is a row of texts, add --no-header" in caplog.text) == header


def test_sentences_that_cannot_be_streamed(write):
    for read in (SentenceEmbedder.stream_rows, SentenceEmbedder.read_training_rows):
        with pytest.raises(ValueError, match=r"a.jsonl:1: the text has a list of labels.*Received: \['a'\]"):
            read(write("a.jsonl", LISTS), Reading())
        with pytest.raises(FileNotFoundError, match=r"There is no file at none\.csv"):
            read("none.csv", Reading())
    path = write("a.csv", "one,two,three\nx,y,z\nz,y,y\n")
    three = Reading(text=("one", "two", "three"))
    with pytest.raises(ValueError, match=r"a.csv:3: the negative is the same text.* --skip-bad.*\. Received: 'y'$"):
        SentenceEmbedder.stream_rows(path, three)
    with pytest.raises(ValueError, match=r"pairs with negatives have no label.* Received: label='three'"):
        SentenceEmbedder.stream_rows(path, dataclasses.replace(three, label="three", skip_bad=True))
    with pytest.raises(ValueError, match=r"each line of a file is a text, but .* is a table \(csv\) by its name"):
        SentenceEmbedder.stream_rows(path, Reading(lines=True, skip_bad=True))
    with pytest.raises(ValueError, match="is empty"):
        SentenceEmbedder.stream_rows(write("a.txt", ""), Reading(lines=True))
    with pytest.raises(ValueError, match="has no rows"):
        SentenceEmbedder.stream_rows(write("a.txt", " \n\n"), Reading(lines=True))


LETTERS = st.text(st.sampled_from('a"\n\r\t,;{}[]: 1é\ufeff'), max_size=30)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "txt"])
@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.one_of(LETTERS, st.sampled_from(JSONL.splitlines())), max_size=6), skip=st.booleans())
def test_any_text(tmp_path_factory, suffix, parts, skip):
    """Both ways to read a file have the same rows, or refuse it."""
    path = tmp_path_factory.mktemp("rows") / f"a.{suffix}"
    path.write_bytes("\n".join(parts).encode())
    column = {"text": (0,), "label": 1} if suffix in ("csv", "tsv") else {}
    reading = Reading(**column, skip_bad=skip, skip_empty=skip)
    try:
        expected = TextClassifier.read_rows(path, reading)
    except ValueError:
        with pytest.raises(ValueError, match="Received"):
            TextClassifier.stream_rows(path, reading)
        return
    rows = TextClassifier.stream_rows(path, reading).read(range(len(expected)))
    assert (rows.x, rows.y) == (expected.x, expected.y)


# === What is refused ===


@pytest.mark.parametrize(
    ("name", "data", "reading", "message"),
    [
        ("a.jsonl", JSONL + "{\n" + JSONL, {}, r"Line 8 of .*a.jsonl is not valid JSON.*--skip-bad"),
        ("a.jsonl", JSONL + '{"text": "x"}\n', {}, r"a.jsonl, line 8: column 'label' has no label.*--skip-bad"),
        ("a.jsonl", JSONL + EMPTY, {}, r"a.jsonl, line 8: column 'text' has no text.*--skip-empty"),
        ("a.jsonl", JSONL + LISTS, {}, r"a.jsonl, line 8: .*list of labels.*Received: \['a'\]"),
        ("a.csv", QUOTED + "x,y,z\n", {}, r"a.csv, line 10: the row has 3 columns"),
        ("a.csv", QUOTED + '"open,a\n', {}, r"a.csv, line 10: the row that begins here has wrong quotes"),
        ("a.csv", "one,two\nx,y\n", {}, r"a.csv has no column 'text'. Name one of its columns: 'one', 'two'"),
        ("a.csv", "text,label\n영화,a\n".encode("cp949"), {}, r"a.csv, line 2, is not UTF-8.*cp949 \(Korean"),
        (
            "a.csv",
            QUOTED.encode("utf-16"),
            {"encoding": "utf-16"},
            r"a line in utf-16 .*iconv -f utf-16",
        ),
        ("a.jsonl", "", {}, r"a.jsonl is empty"),
        ("a.csv", "text,label\n", {}, r"a.csv has no rows"),
        ("a.csv", "text,label\n,a\n,b\n", {"skip_empty": True}, r"Every text in .*a.csv is empty"),
        ("a.csv", "text,label\nx,\ny,\n", {"skip_bad": True}, r"No row of .*a.csv can be read.*a.csv, line 2"),
    ],
)
def test_what_is_wrong_is_found_in_the_first_reading(write, name, data, reading, message):
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        TextClassifier.stream_rows(write(name, data), Reading(**reading))


def test_lists_among_plain_labels_are_skipped(write):
    stream = TextClassifier.stream_rows(write("a.jsonl", JSONL + LISTS + JSONL), Reading(skip_bad=True))
    assert stream.read(range(len(stream))).y == TextClassifier.read_rows(write("b.jsonl", JSONL + JSONL), Reading()).y


def test_a_quote_that_is_never_closed_takes_little_memory(write, monkeypatch):
    monkeypatch.setattr(row_stream, "LONGEST", 50)
    path = write("a.csv", 'text,label\n"open,a\n' + "x,b\n" * 100)
    with pytest.raises(ValueError, match=r"a.csv, line 2: .*wrong quotes.*field larger than field limit"):
        TextClassifier.stream_rows(path)
    assert len(TextClassifier.stream_rows(path, Reading(skip_bad=True))) == 100


def test_a_file_that_changes(write):
    path = write("a.jsonl", JSONL)
    stream = TextClassifier.stream_rows(path)
    assert len(stream.read([1, 2])) == 2
    path.write_text(JSONL + JSONL)
    with pytest.raises(ValueError, match=r"a.jsonl was changed while it was read as a stream. Start again"):
        stream.read([1, 2])


@pytest.mark.parametrize("rows_together", [1_000, 20_000])
def test_parquet_is_read_in_parts(tmp_path, rows_together):
    pandas.DataFrame({"text": ["x" * 1000] * 20_000}).to_parquet(
        tmp_path / "a.parquet", row_group_size=rows_together, compression=None, use_dictionary=False
    )
    before = pyarrow.total_allocated_bytes()
    most = max(pyarrow.total_allocated_bytes() for _ in parquet_lines(tmp_path / "a.parquet"))
    assert most - before < 5e6 < (tmp_path / "a.parquet").stat().st_size


def test_parquet_that_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pandas.DataFrame(LINES).to_parquet(path)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(path.read_bytes()[:-20])
    for read in (TextClassifier.read_rows, TextClassifier.stream_rows):
        with pytest.raises(ValueError, match=r"cut.parquet is not a complete Parquet file; 0 of its rows.*again"):
            read(cut, Reading())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"Reading Parquet files needs .*pip install 'keras3-bert\[parquet\]'"):
        TextClassifier.stream_rows(path)


def test_tasks_that_need_all_rows(write):
    with pytest.raises(ValueError, match=r"The task 'tag' needs all rows in memory. Leave --stream out"):
        TokenTagger.stream_rows(write("a.conll", "a\tO\n"))
    with pytest.raises(ValueError, match=r"Columns beside the text cannot be streamed.*'price'"):
        TextClassifier.stream_rows(write("a.csv", "text,label,price\nx,a,1\n"), Reading(number=("price",)))


# === Splits, labels and memory ===


def test_a_label_that_comes_late(write):
    stream = TextClassifier.stream_rows(write("a.jsonl", JSONL * 300 + '{"text": "x", "label": "rare"}\n'))
    assert stream.sample.y == ["a", "b", "rare"]
    assert np.bincount(stream.codes).tolist() == [1200, 900, 1]


@pytest.mark.parametrize("task", [TextClassifier, TextRegressor])
def test_the_split_is_that_in_memory(write, task):
    labels = ["9", "10", "10", "9", "2"] * 12 + ["7"]
    path = write("a.csv", "text,label\n" + "".join(f"text {row},{label}\n" for row, label in enumerate(labels)))
    both = task.read_rows(path, Reading()), task.stream_rows(path)
    parts = [split_rows(rows, 0.2, task.labels_of(rows.sample)) for rows in both]
    (kept, held), (kept_stream, held_stream) = parts
    assert (held_stream.x, held_stream.y) == (held.x, held.y)
    assert kept_stream.read(range(len(kept_stream))).x == kept.x
    assert 10 <= len(held) <= 13


def test_memory(tmp_path):
    """12 bytes for each row, and a chunk."""
    path = tmp_path / "a.jsonl"
    line = json.dumps({"text": "x" * 500, "label": "a"}) + "\n"
    path.write_text(line * 20_000)
    tracemalloc.start()
    stream = TextClassifier.stream_rows(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(stream) == 20_000
    assert peak < 4e6 < path.stat().st_size
