"""The readers of labelled files, on the shared data and on small files, and what each says of a bad one."""

import json
import re
import tracemalloc

import pytest

from keras_bert.tasks.readers import (
    Reading,
    read_choices,
    read_conll,
    read_conllu,
    read_klue_ner,
    read_labels,
    read_scores,
    read_squad,
)
from keras_bert.tasks.task import Task


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


# === Tables ===


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
    assert "Dropped 1 rows with an empty text, the first at" in caplog.text
    assert "a.tsv:3" in caplog.text


BAD_TABLES = {
    "a column that is not there": (
        "a.tsv",
        "id\tdocument\tlabel\n1\tx\ty\n",
        "a.tsv has no column 'text'. Name .*: 'id', 'document', 'label'. Received: 'text'",
    ),
    "uneven": (
        "a.tsv",
        "text\tlabel\nx\ty\nx\n",
        "a.tsv, line 3: .* has 1 columns, and the first has 2.*Received: 1 columns",
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
        '{"text": "x", "label": 1.0}\n',
        "column 'label' has a label that is neither a name nor a whole number.*Received: 1.0",
    ),
    "an open quote": (
        "a.csv",
        'text,label\nx,y\n"z,y\nx,y\n',
        "a.csv, line 3: the row that begins here has wrong quotes. Close them",
    ),
    "no JSON": ("a.jsonl", "text\n", "must be a JSON value.*Expecting.*a.jsonl:1"),
    "no object": ("a.jsonl", "1\n", "a.jsonl, line 1, is not a JSON object"),
    "deep JSON": ("a.jsonl", '{"text": "x", "label": "x"}\n' + "[" * 100_000, "too deeply at .*a.jsonl:2"),
    "half a character": ("a.jsonl", '{"text": "\\ud800", "label": "x"}\n', "surrogate pair.* at .*a.jsonl:1"),
    "another encoding": (
        "a.tsv",
        "text\tlabel\nx\t1\n영화\t1\n".encode("cp949"),
        "a.tsv, line 3, is not UTF-8.*Received: .*a.tsv:3",
    ),
    "another suffix": ("a.doc", "x", "The format of .*a.doc is unknown. Name it .*label-text.*Received: format=None"),
    "a label alone": ("a.txt", "1 good\n1\n", "a.txt, line 2, is not a label, a space and a text.*Received: '1'"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables(write, case):
    name, text, message = BAD_TABLES[case]
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        read_labels(write(name, text))


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
    with pytest.raises(ValueError, match="scale must be a number above 0"):
        read_scores(write("a.csv", "text,score\nx,1.5\n"), scale=scale)


@pytest.mark.parametrize("value", ["2", "-1", "a", "1.0"])
def test_bad_choices(write, value):
    with pytest.raises(ValueError, match=r"a.csv, line 2: the right choice is not a number from 0 to 1"):
        read_choices(write("a.csv", f"p,a,b,label\nx,y,z,{value}\n"), "p", ("a", "b"))


# === Words ===


def test_conll(write):
    text = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nGermany NNP B-LOC\n"
    examples = read_conll(write("a.conll", text))
    assert examples.x == [["EU", "rejects"], ["Germany"]]
    assert examples.y == [["B-ORG", "O"], ["B-LOC"]]
    assert examples.ids == [3, 7]
    assert read_conll(write("a.conll", text), tag=1).y == [["NNP", "VBZ"], ["NNP"]]


def test_conll_uneven(write):
    with pytest.raises(ValueError, match=r"a.conll, line 4, has 3 columns and not 2.*Received: 3 columns"):
        read_conll(write("a.conll", "a O\n\nb O\nc d O\n"))


def test_conll_without_a_word(write):
    with pytest.raises(ValueError, match=r"a.conll, line 2: the word is empty"):
        read_conll(write("a.conll", "a\tO\n\tO\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Anna\nran\n", "a.conll, line 1, has a word and no tag.*Received: 'Anna'"),
        ("a\tB-PER\n\nb\tO\nc\tVERB\n", "a.conll, line 4: the tag is neither O nor has a prefix.*Received: 'VERB'"),
        ("a\tI-PER\nb\tB_PER\n", "a.conll, line 2: the tag .*Received: 'B_PER'"),
        ("a\tO\n \tO\n", "a.conll, line 2: the word is white space.*klue-ner.*Received: ' '"),
    ],
)
def test_bad_conll(write, text, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write("a.conll", text))


def test_conll_tags_of_one_scheme(write):
    assert read_conll(write("a.conll", "a\nb\n"), tag=None).x == [["a", "b"]]
    for tags in ("O\nO", "B-PER\nE-PER", "PER\nO", "NOUN\nVERB"):
        first, second = tags.split()
        assert read_conll(write("a.conll", f"a\t{first}\nb\t{second}\n")).y == [[first, second]]


def test_conllu(write):
    def row(number, form, upos):
        return "\t".join([number, form, form.lower(), upos, *"______"]) + "\n"

    text = "# text = Vámonos ya\n" + row("1-2", "Vámonos", "_") + row("1", "Vamos", "VERB") + row("2", "nos", "PRON")
    text += row("2.1", "se", "PRON") + row("3", "ya", "ADV") + "\n# text = Sí\n" + row("1", "Sí", "INTJ")
    examples = read_conllu(write("a.conllu", text))
    assert examples.x == [["Vamos", "nos", "ya"], ["Sí"]]
    assert examples.y == [["VERB", "PRON", "ADV"], ["INTJ"]]
    with pytest.raises(ValueError, match=r"b.conllu, line 1, has 2 columns and not 10"):
        read_conllu(write("b.conllu", "1\tgo\n"))


def test_klue_ner(write):
    examples = read_klue_ner(write("a.tsv", "## c\n## id\t<박:PS>씨\n박\tB-PS\n씨\tO\n \tO\n3\tB-QT\n명\tI-QT\n\n"))
    assert examples.x == ["박씨 3명"]
    assert examples.y == [[(0, 1, "PS"), (3, 5, "QT")]]


def test_klue_ner_spans_are_seqeval_s(write):
    from seqeval.metrics.sequence_labeling import get_entities

    tags = ["I-A", "I-A", "B-A", "I-B", "I-B", "O", "I-B", "B-B", "O", "I-A", "B-B", "I-A"]
    text = "".join(f"x\t{tag}\n" for tag in tags)
    assert read_klue_ner(write("a.tsv", text)).y == [
        [(start, end + 1, kind) for kind, start, end in get_entities(tags)]
    ]


# === Questions ===


def _squad(*entries, context="Seoul is in Korea."):
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": list(entries)}]}]})


def _entry(text="Seoul", start=0, question="Where?", **rest):
    return {"id": "q7", "question": question, "answers": [{"text": text, "answer_start": start}], **rest}


def test_squad(write):
    path = write("a.json", _squad(_entry(), _entry("Korea", 12, is_impossible=False), _entry(is_impossible=True)))
    examples = read_squad(path)
    assert examples.x == (["Where?"] * 3, ["Seoul is in Korea."] * 3)
    assert [tuple(zip(*answers.values(), strict=True)) for answers in examples.y] == [
        (("Seoul", 0),),
        (("Korea", 12),),
        (),
    ]
    assert examples.place(0) == f"{path}:q7"


def test_squad_answers_that_are_not_there(write, caplog):
    read_squad(write("a.json", _squad(_entry(), _entry("Korea", 11), _entry("Busan", 3))))
    assert "2 answers are not at the place in their context that" in caplog.text
    assert "the first is 'Korea' of q7" in caplog.text


def test_squad_questions_alone(write):
    examples = read_squad(write("a.json", _squad({"id": "q7", "question": "Where?"})), answers=False)
    assert (examples.x, examples.y) == ((["Where?"], ["Seoul is in Korea."]), [])


BAD_SQUAD = {
    "no answers": (
        _squad({"id": "q7", "question": "W"}),
        r"a.json:q7: the answers are not a list .*empty where there is no answer. Received: None",
    ),
    "none of the answers": (_squad(_entry("Busan")), r"No answer in .*a.json is a part of its context.*'Busan' of q7"),
    "a start that is true": (
        _squad(_entry(start=True)),
        r"a.json:q7: an answer has no place.*Received: answer_start=True",
    ),
    "no JSON": ("{", "SQuAD's JSON.*JSONDecodeError"),
    "deep JSON": ("[" * 100_000, "SQuAD's JSON.*RecursionError"),
    "another JSON": ('{"rows": []}', "SQuAD's JSON.*KeyError: 'data'"),
    "no questions": (_squad(), "a.json has no questions"),
    "an empty question": (
        _squad(_entry(question=" ")),
        r"a.json:q7: the question is empty or not a string.*Received: question=' '",
    ),
    "a question that is a number": (_squad("x"), "SQuAD's JSON.*a question is not an object"),
    "a context that is a number": (_squad(_entry(), context=5), "SQuAD's JSON.*a context is not a string"),
    "answers that are none": (
        _squad(_entry() | {"answers": None}),
        r"a.json:q7: the answers are not a list.*Received: None",
    ),
    "no start": (
        _squad({"id": "q7", "question": "W", "answers": [{"text": "x"}]}),
        r"a.json:q7: an answer has no place.*Received: answer_start=None",
    ),
}


@pytest.mark.parametrize("case", BAD_SQUAD)
def test_bad_squad(write, case):
    text, message = BAD_SQUAD[case]
    with pytest.raises(ValueError, match=message):
        read_squad(write("a.json", text))


# === The shared data ===


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


def test_shared_words(shared):
    wnut = read_conll(shared / "en/wnut17.dev.conll")
    assert len(wnut) == 1009
    assert "I-location" in {tag for tags in wnut.y for tag in tags}


def test_shared_klue_ner(shared):
    """The file carries its sentences with the entities marked, beside the characters."""
    path = shared / "ko/klue-ner.dev.tsv"
    examples = read_klue_ner(path)
    marked = [line.split("\t", 1)[1] for line in path.read_text().split("\n") if line.startswith("## klue-ner")]
    assert len(examples) == len(marked) == 5000
    pattern = re.compile(r"<([^<>]*?):(PS|LC|OG|DT|TI|QT)>")
    for text, spans, line in zip(examples.x, examples.y, marked, strict=True):
        assert text == pattern.sub(r"\1", line)
        if "<" not in text:  # where the text has one of its own, the marks do not tell which
            assert [(text[start:end], kind) for start, end, kind in spans] == pattern.findall(line)


def test_shared_squad(shared, caplog):
    examples = read_squad(shared / "en/xquad.en.json")
    assert len(examples) == 1190
    assert examples.y[0] == {"text": ["308"], "answer_start": [34]}
    assert not caplog.text


@pytest.mark.parametrize("name", ["cr.tsv", "cr.txt", "cr.conll", "cr.csv"])
def test_lines_that_end_in_cr(write, name):
    path = write(name, "text\tlabel\rgood\t1\r\rbad\t0\r")
    task = Task.named("tag" if name == "cr.conll" else "classify")
    with pytest.raises(ValueError, match=r"line 1, has a CR inside.*LF or CRLF.*:1"):
        task.read_rows(path, Reading())
