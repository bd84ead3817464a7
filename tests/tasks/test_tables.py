"""Tables in the forms that public data has: each is read as pandas reads it, or refused with file, row and remedy."""

import csv
import json
import re

import pandas
import pytest

from keras_bert.tasks.readers import Reading, read_choices, read_labels, read_scores
from keras_bert.tasks.readers.row_stream import RowStream
from keras_bert.tasks.readers.table import TableParser, read_table
from keras_bert.wording import plural
from tests.tasks.runs import reviews, run, train

ROWS = [
    ("A good film.", "yes"),
    ('She said "never again", twice', "no"),
    ("first line\nsecond line", "no"),
    ("a tab\there; and a semicolon", "yes"),
    ("", "no"),
]
FRAME = pandas.DataFrame(ROWS, columns=["text", "label"])
PLAIN = FRAME.iloc[[0, 1, 3]].replace("\t", " ", regex=True)
KOREAN = pandas.DataFrame({"text": ["다시 보고 싶은 영화", "별로, 그냥"], "label": ["1", "0"]})
LATIN = pandas.DataFrame({"text": ["Who was Abbé Faria ?", "Où, là ?"], "label": ["HUM", "LOC"]})
TAB = {"sep": "\t"}


def as_file(folder, name, frame, **options):
    """A file as pandas writes it, without its index."""
    path = folder / name
    frame.to_csv(path, index=False, **options)
    return path


def pandas_rows(path, **options):
    frame = pandas.read_csv(path, dtype=str, keep_default_na=False, **options)
    return list(zip(frame["text"], frame["label"], strict=True))


def our_rows(path, **options):
    table = read_table(path, header=True, **options)
    return list(zip(table.column("text"), table.column("label"), strict=True))


# === The ten forms ===


@pytest.mark.parametrize(
    ("name", "frame", "written", "reading", "pandas_reading"),
    [
        ("quoted.tsv", FRAME, TAB, {}, TAB),
        ("all-quoted.tsv", FRAME, TAB | {"quoting": csv.QUOTE_ALL}, {}, TAB),
        ("texts-quoted.tsv", FRAME.iloc[:1].assign(label=1), TAB | {"quoting": csv.QUOTE_NONNUMERIC}, {}, TAB),
        ("newlines.csv", FRAME, {}, {}, {}),
        ("mark.csv", FRAME, {"encoding": "utf-8-sig"}, {}, {"encoding": "utf-8-sig"}),
        ("mark.tsv", PLAIN, TAB | {"encoding": "utf-8-sig"}, {}, TAB | {"encoding": "utf-8-sig"}),
        ("crlf.csv", PLAIN, {"lineterminator": "\r\n"}, {}, {}),
        ("crlf.tsv", PLAIN, TAB | {"lineterminator": "\r\n"}, {}, TAB),
        ("latin.csv", LATIN, {"encoding": "latin-1"}, {"encoding": "latin-1"}, {"encoding": "latin-1"}),
        ("korean.tsv", KOREAN, TAB | {"encoding": "cp949"}, {"encoding": "cp949"}, TAB | {"encoding": "cp949"}),
        ("excel.tsv", KOREAN, TAB | {"encoding": "utf-16"}, {"encoding": "utf-16"}, TAB | {"encoding": "utf-16"}),
        ("semicolons.csv", FRAME, {"sep": ";"}, {"delimiter": ";"}, {"sep": ";"}),
        ("found.csv", FRAME.iloc[1:], {"sep": ";"}, {}, {"sep": None, "engine": "python"}),
        ("quoted-found.csv", KOREAN, {"sep": ";", "quoting": csv.QUOTE_ALL}, {}, {"sep": ";"}),
        ("tabs.csv", KOREAN, TAB, {}, TAB),
        ("commas.tsv", FRAME, {}, {}, {}),
        ("bars.csv", KOREAN, {"sep": "|"}, {}, {"sep": "|"}),
        ("bars.dat", FRAME, {"sep": "|"}, {"delimiter": "|"}, {"sep": "|"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_rows_are_those_of_pandas(tmp_path, name, frame, written, reading, pandas_reading):
    path = as_file(tmp_path, name, frame, **written)
    rows = our_rows(path, **reading)
    assert rows == pandas_rows(path, **pandas_reading)
    assert rows == [(text, str(label)) for text, label in frame.itertuples(index=False)]


def test_duplicate_headers(write):
    path = write("a.csv", "text,label,text\nx,1,z\n")
    with pytest.raises(ValueError, match=r"a.csv has 2 columns called 'text', with the numbers 0, 2. Rename.*--header"):
        read_labels(path)
    assert read_labels(path, 2, "label").x == ["z"]


def test_a_text_of_characters_without_a_width(write):
    """The tokenizer drops them, so the text is empty."""
    path = write("a.tsv", "text\tlabel\nx\t1\n\u200b \ufeff\t0\n\u200by\t0\n")
    with pytest.raises(ValueError, match=r"a.tsv, line 3: column 'text' has no text.*Received: '\\u200b \\ufeff'$"):
        read_labels(path)
    assert read_labels(path, skip_empty=True).x == ["x", "\u200by"]


def test_missing_cells(write, caplog):
    """NaN of pandas is an empty cell."""
    frame = pandas.DataFrame({"text": ["good", None, "bad", "so so"], "label": ["1", "1", None, "0"]})
    path = write("a.csv", frame.to_csv(index=False))
    with pytest.raises(ValueError, match=r"a.csv, line 3: column 'text' has no text.*--skip-empty"):
        read_labels(path)
    with pytest.raises(ValueError, match=r"a.csv, line 4: column 'label' has no label.*--skip-bad"):
        read_labels(path, skip_empty=True)
    rows = read_labels(path, skip_empty=True, skip_bad=True)
    assert (rows.x, rows.y, rows.ids) == (["good", "so so"], ["1", "0"], [2, 5])
    assert re.search(
        r"Dropped 1 row of .*a.csv that cannot be read. The first: .*a.csv, line 4: .*no label", caplog.text
    )
    assert read_labels(path, label=None).x == ["good", "", "bad", "so so"]
    assert re.search(
        r"1 row has an empty text, and an answer too; the first is at .*a.csv:3. Use --skip-empty", caplog.text
    )


def test_labelled_lines_with_a_tab(write):
    rows = read_labels(write("a.txt", "pos\ta good film\nneg a bad\tfilm\n__label__pos  fine \n"))
    assert (rows.x, rows.y) == (["a good film", "a bad\tfilm", " fine "], ["pos", "neg", "__label__pos"])


# === What is refused ===


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "a.csv",
            "a film that I liked a lot,1\nx,0\n",
            r"no column 'text'.*looks like data.*add --no-header.*--text 0",
        ),
        ("a.csv", LATIN.to_csv(index=False).encode("latin-1"), r"line 2, is not UTF-8.*--encoding.*cp1252 \(Western"),
        ("a.csv", KOREAN.to_csv(index=False).encode("cp949"), r"line 2, is not UTF-8.*--encoding.*cp949 \(Korean"),
        ("a.csv", KOREAN.to_csv(index=False).encode("utf-16"), r"line 1, is not UTF-8.*--encoding.*may be utf-16\."),
        ("a.csv", b"t\0e\0x\0t\0,\0l\0\n\0", r"line 1, has NUL characters.*--encoding.*utf-16-le"),
        ("a.txt", "pos good\n\x85\x85neg\tbad\n".encode("latin-1"), r"a.txt, line 2, is not UTF-8.*--encoding"),
        (
            "a.csv",
            "text,label\nso, so,1\n",
            r"a.csv, line 2: the row has 3 columns, but the first row has 2.*--skip-bad",
        ),
    ],
)
def test_the_error_names_the_remedy(write, name, data, message):
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        read_labels(write(name, data))


def test_what_separates_the_columns(write, caplog):
    """The first row shows it if it names the columns. A delimiter that is given, or a file without names, is kept."""
    caplog.set_level("INFO")
    path = write("a.csv", "text;label\nx, y;1\nso; so;0\n")
    with pytest.raises(ValueError, match=r"a.csv, line 3: the row has 3 columns, but the first row has 2"):
        read_labels(path)
    assert read_labels(path, skip_bad=True).x == ["x, y"]
    assert "a.csv are separated by ';', as its first row shows. If this is wrong, add --delimiter ','." in caplog.text
    for data, asked, message in (
        (
            "text;label\nx;1\n",
            {"delimiter": ","},
            r"no column 'text'.*separated by ';' and not by ',': add --del.* ';'",
        ),
        ('"text";"label"\n"x, y";"1"\n', {"delimiter": ","}, r"line 1: .*wrong quotes.*add --delimiter ';'"),
        (
            "so, so;1\na film;0\n",
            {"header": False},
            r"line 2: the row has 1 column, .*separated by ';' and.* --del.* ';'",
        ),
        ("x\t1\ny\t0\n", {"header": False}, r"no column 1.*separated by '\\t' and not by ',': add --delimiter 'tab'"),
    ):
        columns = (0, 1) if "header" in asked else ("text", "label")
        with pytest.raises(ValueError, match=message):
            read_labels(write("b.csv", data), *columns, **asked)
    with pytest.raises(
        ValueError, match=r"first line of .*d.csv is an instruction for Excel.*Delete this line.*'sep=;'"
    ):
        read_labels(write("d.csv", "sep=;\ntext;label\nx;1\n"))
    for data, texts in (
        ("text;label\n" + "a;1\n" * 8 + "broken\n" + "b;0\n" * 9, ["a"] * 8 + ["b"] * 9),
        ("text;label\n" + ('"' + "so, so\n" * 30 + '";1\n') * 9, ["so, so\n" * 30] * 9),  # the 100th line is in a cell
        ('"text";"label"\n"a, b";1\n', ["a, b"]),
    ):
        assert read_labels(write("e.csv", data), skip_bad=True).x == texts
    name = "Review (title, body)"
    assert read_table(write("c.tsv", f"{name}\ngood, film\nbad, film\n"), header=True).column(name)[0] == "good, film"
    parser = TableParser("a.csv", header=False)
    parser.look(['"a, b; c",1', '"d; e",0'])
    assert not parser.hint
    one_column = write("c.tsv", "text\nWell, yes\nNo, never\n")
    assert read_table(one_column, header=True).column("text") == ["Well, yes", "No, never"]


def test_another_encoding_that_does_not_fit(write):
    path = write("a.tsv", "text\tlabel\n영화\t12\n")
    for encoding, line in (("ascii", 2), ("cp949", 2), ("utf-16-le", 1)):
        with pytest.raises(ValueError, match=rf"a.tsv, line {line}, is not {encoding.upper()}"):
            read_labels(path, encoding=encoding)
    with pytest.raises(ValueError, match=r"a.tsv has no byte order mark, .* or name utf-16-le"):
        read_labels(path, encoding="utf-16")
    for encoding in ("klingon", "hex", "a\0b"):
        with pytest.raises(ValueError, match="There is no encoding"):
            Reading(encoding=encoding)


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_a_bad_delimiter(delimiter):
    assert Reading(delimiter="tab").delimiter == Reading(delimiter="\\t").delimiter == "\t"
    with pytest.raises(ValueError, match="`delimiter` must be one character"):
        Reading(delimiter=delimiter)
    with pytest.raises(ValueError, match="`delimiter` must be one character"):
        read_labels("none.csv", delimiter=delimiter)


# === Bad rows are dropped if that is asked for ===


@pytest.mark.parametrize(
    ("name", "data", "ids", "first"),
    [
        ("a.csv", 'text,label\nx,1\n"z,1\ny,0\n,1\nw,\nv,1,2\nu,0\n', [2, 4, 8], "line 3: the row that begins here"),
        ("a.tsv", "text\tlabel\nx\t1\nbad\ny\t0\n", [2, 4], "line 3: the row has 1 column, "),
        ("a.jsonl", '{"text": "x", "label": "1"}\n[1]\n{\n{"text": 1, "label": "1"}\n', [1], "line 2, is not a JSON"),
        ("a.txt", "1 x\n1\n0 y\n", [1, 3], "line 2, is not a label"),
    ],
)
def test_bad_rows_are_counted(write, caplog, name, data, ids, first):
    rows = read_labels(write(name, data), skip_bad=True)
    assert rows.ids == ids
    dropped = data.count("\n") - len(ids) - (name in ("a.csv", "a.tsv"))
    assert f"Dropped {dropped} {plural('row', dropped)} of" in caplog.text
    assert first in caplog.text


def test_bad_scores_and_choices_are_counted(write):
    assert read_scores(write("a.csv", "text,score\nx,high\ny,1\n"), skip_bad=True).y == [1.0]
    assert read_choices(write("b.csv", "p,a,b,label\nx,y,z,2\nx,y,z,1\n"), "p", ("a", "b"), skip_bad=True).y == [1]


def test_true_is_no_number(tmp_path):
    file = tmp_path / "scores.jsonl"
    file.write_text('{"text": "a", "score": 1}\n{"text": "b", "score": true}\n')
    with pytest.raises(ValueError, match=r"line 2: the score in column 'score' is not a finite.* Received: True"):
        read_scores(file)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt"])
def test_a_line_in_another_encoding(write, caplog, name):
    """It is dropped with the whole row that it is a part of, and only if that is asked for."""
    rows = {
        "a.csv": ["text,label", '"x\ny",1', '"x\n\xe9\ny",1', "\xe9,0", "z,0"],
        "a.tsv": ["text\tlabel", "x\t1", "\xe9\t0", "z\t0"],
        "a.jsonl": ['{"text": "x", "label": "1"}', '{"text": "\xe9", "label": "1"}', '{"text": "z", "label": "0"}'],
        "a.txt": ["1 x", "1 \xe9", "0 z"],
    }[name]
    data = "\n".join(rows).encode("latin-1") + b"\n"
    line = 1 + data[: data.index(b"\xe9")].count(b"\n")
    path = write(name, data)
    with pytest.raises(ValueError, match=rf"{name}, line {line}, is not UTF-8"):
        read_labels(path)
    found = read_labels(path, skip_bad=True)
    assert [text[0] for text in found.x] == ["x", "z"]
    dropped = 2 if name == "a.csv" else 1
    assert (
        f"Dropped {dropped} {plural('row', dropped)} of {path} that cannot be read. The first: {path}," in caplog.text
    )
    stream = RowStream(path, Reading(skip_bad=True), lambda table, reading: read_labels(table, *reading.columns))
    assert stream.read([0, 1]).x == found.x
    with pytest.raises(ValueError, match=rf"{name}, line 1, is not UTF-8"):  # the whole file may be in that encoding
        read_labels(write(name, "\xe9".encode("latin-1") + data), skip_bad=True)


def test_nothing_is_left(write):
    with pytest.raises(ValueError, match=r"No row of .*a.csv can be read.*Received: .*a.csv, line 2.* as the first"):
        read_labels(write("a.csv", "text,label\nx,\ny,\n"), skip_bad=True)


def test_shared_files_are_read_as_before(shared):
    """TSV without quotes, CSV as Python's reader reads it, and lines split at their first space."""
    for name in (
        "nsmc20k.tsv",
        *(f"korsts.{part}.tsv" for part in ("train", "dev", "test")),
        "kornli.dev.tsv",
        "kornli.test.tsv",
    ):
        text = (shared / "ko" / name).read_text(encoding="utf-8-sig")
        expected = [line.removesuffix("\r").split("\t") for line in text.split("\n") if line.removesuffix("\r")]
        table = read_table(shared / "ko" / name, header=True)
        assert [table.names, *map(list, table.rows)] == expected
    for part in ("train", "dev", "test"):
        with (shared / f"en/stsb.{part}.csv").open(newline="", encoding="utf-8") as file:
            assert read_table(shared / f"en/stsb.{part}.csv", header=False).rows == list(map(tuple, csv.reader(file)))
        text = (shared / f"en/sst2.{part}.txt").read_text(encoding="utf-8")
        expected = [line.partition(" ")[::2] for line in text.split("\n") if line.strip()]
        rows = read_labels(shared / f"en/sst2.{part}.txt")
        assert [(label, text) for text, label in zip(rows.x, rows.y, strict=True)] == expected


# === A run ===


def test_a_run_remembers_how_its_files_are_read(bert, tmp_path, caplog):
    rows = [[text + " é", label] for text, label in reviews(64, 0)]
    lines = ["text;label", *map(";".join, rows), "the film is bad;", "one cell"]
    data = tmp_path / "a.csv"
    data.write_text("\n".join(lines), encoding="latin-1")
    options = ["--delimiter", ";", "--encoding", "latin-1", "--skip-bad", "--epochs", 1]
    train(bert, "classify", data, data, tmp_path / "run", *options)
    assert "Dropped 2 rows of" in caplog.text
    card = (tmp_path / "run/README.md").read_text()
    for line in ("| delimiter | `;` |", "| encoding | `latin-1` |", "| unreadable rows dropped | yes |"):
        assert line in card
    assert "accuracy" in run("evaluate", tmp_path / "run", "--data", data).stdout
    asked = tmp_path / "asked.csv"
    asked.write_text("text;n\nthe film is good é;1\n;2\nthe film is bad;3\n", encoding="latin-1")
    answers = [json.loads(line) for line in run("predict", tmp_path / "run", asked).stdout.splitlines()]
    assert len(answers) == 3  # the empty cell too, so that each row has its answer
    assert len(run("predict", tmp_path / "run", asked, "--skip-empty").stdout.splitlines()) == 2


def test_columns_in_a_file_of_labels_and_texts(write, caplog):
    for lines in ("pos a film\nneg\tso what\n", "pos\ta\tb\nneg\tc\n", "id\tdocument\tlabel\n1\ta b\t1\n2\tc\t0\n"):
        read_labels(write("a.txt", lines))
        assert ("Each text in" in caplog.text) == lines.startswith("id")
    assert "a.txt has 1 tab, so its lines may be rows of columns" in caplog.text
    caplog.clear()
    path = write("a.txt", "id\tdocument\tlabel\n1\ta b\t1\n2\tc\t0\n")
    stream = RowStream(path, Reading(), lambda table, reading: read_labels(table, *reading.columns))
    for _ in range(2):
        stream.read([0, 1])
    assert caplog.text.count("Each text in") == 1


def test_utf_8_that_is_read_in_another_encoding(write, caplog):
    texts = "text\tlabel\n{}\t1\nb\t0\n"
    path = write("a.tsv", texts.format("최고"))  # whose bytes are letters in CP949 too
    assert read_labels(path, encoding="cp949").x[0] != "최고"
    assert "a.tsv is read as CP949, but it may be UTF-8: see line 2." in caplog.text
    caplog.clear()
    for encoding in ("cp949", "utf-8"):
        read_labels(write("a.tsv", texts.format("최고").encode(encoding)), encoding=encoding)
    assert not caplog.text
    with pytest.raises(ValueError, match=r"line 2, is not CP949, but UTF-8\. Pass --encoding utf-8"):
        read_labels(write("a.tsv", texts.format("영화")), encoding="cp949")
    damaged = texts.format("영화").encode("utf-16-le") + b"a"
    with pytest.raises(ValueError, match=r"is not UTF-16-LE\. Save the file as UTF-8"):
        read_labels(write("a.tsv", damaged), encoding="utf-16-le")
