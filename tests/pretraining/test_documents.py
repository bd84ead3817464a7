import bz2
import gzip
import json
import random
import re
import textwrap
import time
import tracemalloc

import pytest

from keras_bert.corpus import documents
from keras_bert.corpus.documents import Document, read_documents, read_texts, split_at_headings
from keras_bert.corpus.sentences import sentences_of, split_sentences
from keras_bert.corpus.wikipedia import plain_text

TEXT = "One. Two.\nThree.\n\n\nFour.\n"


def texts(corpus, **options):
    return [document.text for document in read_documents(corpus, **options)]


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_blank_line_separates_documents_in_plain_text(tmp_path):
    assert texts(write(tmp_path, "a.txt", TEXT)) == ["One. Two.\nThree.", "Four."]


def test_a_heading_separates_documents_in_markdown(tmp_path):
    path = write(
        tmp_path,
        "a.md",
        "# Title\n\n---\n\nFirst part\ngoes on.\n\nSecond.\n\nUnder\n=====\n\n"
        "Third.\n```\n# no heading\n```\n## End\nFourth. #1\n",
    )
    first, second, third = read_documents(path)
    assert list(sentences_of(first)) == ["First part goes on.", "Second."]
    assert "# no heading" in second.text
    assert third.text == "Fourth. #1"


def test_boundaries(tmp_path):
    path = write(tmp_path, "a.txt", "# A\nOne\n\ntwo.\n# B\nThree.\n")
    assert texts(path, boundary="heading") == ["One\n\ntwo.", "Three."]
    (document,) = read_documents(path, boundary="file")
    assert list(sentences_of(document)) == ["# A One", "two.", "# B Three."]  # where a blank line separates paragraphs
    with pytest.raises(ValueError, match=r"`boundary` \(--documents\) must be one of"):
        read_documents(path, boundary="page")


def test_code_in_a_line_hides_no_heading(tmp_path):
    text = "# One\na\n```pip install x```\n# Two\nb\n```sh\n# no heading\n```\n# Three\nc\n"
    found = [document.text for document in read_documents(write(tmp_path, "a.md", text))]
    assert len(found) == 3
    assert "no heading" in found[1]


def test_each_line_is_a_sentence_with_the_rule_line(tmp_path):
    (first, second) = read_documents(write(tmp_path, "a.txt", TEXT))
    assert list(sentences_of(first, "line")) == ["One. Two.", "Three."]
    assert list(sentences_of(second, "line")) == ["Four."]


def test_jsonl(tmp_path):
    lines = [{"text": "One."}, "Two.", {"text": " "}]
    path = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n")
    assert texts(path) == ["One.", "Two."]
    assert texts(write(tmp_path, "b.jsonl", '{"body": "Three."}'), text_field="body") == ["Three."]
    with pytest.raises(ValueError, match=r"a\.jsonl, line 1 has no text.*text_field"):
        texts(path, text_field="body")
    with pytest.raises(ValueError, match=r"is not valid JSON.*c\.jsonl:1"):
        texts(write(tmp_path, "c.jsonl", "{'text': 1}"))


@pytest.mark.parametrize(
    ("text", "encoding", "likely"),
    [
        ("처음.\n\n둘째 문장.", "cp949", r"cp949 \(Korean"),
        ("un été.\n\nà Paris.", "latin-1", r"cp1252 \(Western European\)\."),
        ("처음.\n\n둘째.", "utf-16", "utf-16"),
    ],
)
def test_encodings(tmp_path, text, encoding, likely):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    assert texts(path, encoding=encoding) == text.split("\n\n")
    assert list(read_texts(path, encoding=encoding)) == text.split("\n")
    with pytest.raises(ValueError, match=rf"a\.txt, line 1, is not UTF-8\..*--encoding.*this line may be {likely}"):
        texts(path)
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(f'"One."\n"{text.split()[0]}"'.encode(encoding)))
    assert texts(packed, encoding=encoding) == ["One.", text.split()[0]]


def test_the_likely_encoding_of_a_line_that_is_read_in_blocks(tmp_path):
    for size in range(8180, 8200):
        path = write(tmp_path, "a.txt", "One.\r\n" + size * "a")
        with path.open("ab") as file:
            file.write((20_000 * "가").encode("cp949"))
        with pytest.raises(ValueError, match=r"line 2, is not UTF-8.*may be cp949 \(Korean\)"):
            texts(path)


def test_encodings_that_are_wrong(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("a text".encode("utf-16-le"))
    with pytest.raises(ValueError, match=r"line 1, has a NUL character.*UTF-8\. .*--encoding.*utf-16-le"):
        texts(path)
    assert texts(path, encoding="utf-16-le") == ["a text"]
    for encoding in ("utf-16", "utf-32"):
        path.write_bytes("a text".encode(f"{encoding}-le"))
        with pytest.raises(ValueError, match=rf"a\.txt has no byte order mark, but .* or name {encoding}-le"):
            texts(path, encoding=encoding)
    path.write_bytes(gzip.compress(b"a text"))
    with pytest.raises(ValueError, match=r"not text, but a gzip file\. Unpack it\. .* if its name ends in \.gz"):
        texts(path)
    with pytest.raises(ValueError, match=r"There is no encoding 'hangul'"):
        read_documents(path, encoding="hangul")


def test_texts_in_memory():
    import tensorflow as tf

    assert texts(tf.data.Dataset.from_tensor_slices(["한국어.", "Two."])) == ["한국어.", "Two."]
    assert texts(word for word in ("One.", b"Two.", "...")) == ["One.", "Two."]
    with pytest.raises(TypeError, match="index 0"):
        texts(iter([1]))


def test_an_iterator_of_paths(tmp_path):
    path = str(write(tmp_path, "a.txt", TEXT))
    for text in (path, path.encode()):
        with pytest.raises(ValueError, match=r"the first one is the path of a file\. Give paths as a list.*a\.txt"):
            texts(iter([text]))
    assert texts(iter(["One.", str(tmp_path)])) == ["One.", str(tmp_path)]


@pytest.mark.parametrize("data", [b"text \xff\xfe text", b"text \0 text", "한국어".encode("cp949")])
@pytest.mark.parametrize("lines", [2, 3000])
def test_binary_files_are_named(tmp_path, data, lines):
    path = tmp_path / "odd.txt"
    path.write_bytes(b"Fine.\n" * lines + data + b"\nFine.\n")
    with pytest.raises(ValueError, match=rf"odd\.txt.* line {lines + 1}\b"):
        texts(path)


def test_a_very_long_document_is_cut(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(documents, "MAX_CHARACTERS", 1000)
    path = write(tmp_path, "a.txt", "A line of a file without blank lines.\n" * 100)
    found = texts(path)
    assert len(found) == 4
    assert sum(text.count("line of") for text in found) == 100
    assert "a.txt: documents longer than 1,000 characters are split" in caplog.text
    found = texts(write(tmp_path, "b.txt", "word " * 800))  # one line
    assert max(map(len, found)) <= 2001
    assert "".join(found).replace("\n", "") == "word " * 800


def test_blank_lines_have_a_size(monkeypatch):
    """Otherwise a file of blank lines would be in memory as a whole."""
    monkeypatch.setattr(documents, "MAX_CHARACTERS", 1000)
    assert max(map(len, split_at_headings([""] * 5000))) <= 1001


def test_a_very_long_line_of_jsonl(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_LINE", 1000)
    fits = json.dumps("a" * 997)
    assert texts(write(tmp_path, "a.jsonl", f"{fits}\n{fits}")) == ["a" * 997] * 2
    path = write(tmp_path, "b.jsonl", f'{fits}\n"{"a" * 2000}"\n')
    with pytest.raises(ValueError, match=r"b\.jsonl, line 2 is longer than 1,000 characters\..*Received: \"aaa"):
        texts(path)


def test_the_first_document_needs_little_of_the_file(tmp_path):
    path, sizes = write(tmp_path, "a.txt", ("word " * 4000 + "\n\n") * 500), []  # 10 MB
    next(read_documents(path, seen=sizes.append))
    assert sum(sizes) < 4e6


def test_hard_wrapped_lines_are_joined(tmp_path):
    sentences = [f"Sentence {number} has {'several words ' * (number % 7)}and an end." for number in range(60)]
    paragraphs = [" ".join(sentences[begin : begin + 4]) for begin in range(0, 60, 4)]
    wrapped = "\n\n".join(textwrap.fill(paragraph, 60) for paragraph in paragraphs)
    documents = list(read_documents(write(tmp_path, "wrapped.txt", wrapped)))
    assert len(documents) == len(paragraphs)
    assert [sentence for document in documents for sentence in sentences_of(document)] == sentences
    lines = [line for document in documents for line in sentences_of(document, "line")]
    assert lines == [line for line in wrapped.split("\n") if line]
    for text in ("\n".join(sentences), "\n".join(paragraphs)):  # lines of natural length stay as they are
        (document,) = read_documents(write(tmp_path, "lines.txt", text))
        assert document.form == "lines"


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. Smith met Dr. Jones at 5 p.m. on Main St. yesterday.", "They talked."],
        ["“Go!” he said.", "“Why?”", "She left… and came back.", "It was 3.5 km."],
        [
            '"The mater will be delighted to see you again--after all those years," he added.',
            '"Your mother?" she asked.',
        ],
        ["J. R. R. Tolkien wrote it.", "So did I.", "See No. 5 there."],
        ["A\tMr.\u00a0Smith and\u00a0Dr. No went\tvs. all.", "He won."],
        ["밥을 먹었다.", "그리고 잤다!", "왜?", "3.1운동은 1919년에 일어났다."],
        ["정말 재밌어요", "수고하세요", "또 봐요"],
        ["좋았습니다", "그런데 길었습니다"],
        ["ㅋㅋㅋ", "웃겨요 ㅋㅋ", "끝"],
        ["「行きますか。」", "はい。", "行きます。"],
    ],
)
def test_sentences(sentences):
    assert list(split_sentences(" ".join(sentences))) == sentences


def test_a_text_without_spaces():
    """Its time grows with its length: with the square of it, this would take minutes."""
    assert len(list(split_sentences("Ab.\t" * 200_000))) == 200_000


@pytest.mark.parametrize("mark", [".", "…", "?!", "ㅋ"])
def test_a_text_of_marks(mark):
    """Its time grows with its length: with the square of it, this would take minutes."""
    text = f"a{mark * 100_000}b"
    assert list(split_sentences(text)) == [text]
    assert list(split_sentences(f"{text} {mark * 3} Next.")) == [f"{text} {mark * 3}", "Next."]


def test_korean_without_spaces():
    assert list(split_sentences("재미있다.그런데 길다!!왜?A사의 3.14를 합니다 라고 말했다.")) == [
        "재미있다.",
        "그런데 길다!!",
        "왜?A사의 3.14를 합니다 라고 말했다.",
    ]


@pytest.mark.parametrize("boundary", ["heading", "blank-line", "file"])
def test_headings_of_markdown_are_dropped(tmp_path, boundary):
    text = "# Title\nOne. Two.\n## Part\nThree\nUnder\n---\n\nFour.\n```\n# of code\n```\n"
    documents = read_documents(write(tmp_path, "a.md", text), boundary=boundary)
    found = [sentence for document in documents for sentence in sentences_of(document)]
    assert found == ["One.", "Two.", "Three", "Four.", "``` # of code ```"]
    (document,) = read_documents(tmp_path / "a.md", boundary="file")
    assert list(sentences_of(document, "line"))[:3] == ["One. Two.", "Three", "Four."]


def test_markup_of_markdown_is_dropped():
    text = "> *Quoted* and __bold__ [link](http://x) ![pic](y.png).\n\n- a bullet with snake_case_name\n\n***\n"
    assert list(sentences_of(Document(text, "markdown"))) == ["Quoted and bold link .", "a bullet with snake_case_name"]


def test_links_and_pictures_are_dropped():
    """As two expressions would, which take minutes for a line of many brackets."""
    picture, link = re.compile(r"!\[[^\]]*\]\([^)]*\)"), re.compile(r"\[([^\]]*)\]\([^)]*\)")
    dice = random.Random(0)
    for _ in range(20_000):
        line = "x " + "".join(dice.choices("[[]]()(!ab ", k=dice.randint(0, 16)))
        expected = link.sub(r"\1", picture.sub("", line))
        assert "".join(sentences_of(Document(line, "markdown"), "line")) == expected.strip()
    badges = "[![Build](https://x/y.svg)](https://x) [![a](b)](c)One [and ![d](e) two](f)."
    assert list(sentences_of(Document(badges, "markdown"))) == ["One and  two."]
    picture = f"One. ![a](data:image/png;base64,{'A' * 5000}) Two."
    assert list(sentences_of(Document(picture, "markdown"))) == ["One.", "Two."]
    began = time.perf_counter()
    for line in ("[" * 200_000 + "](x", "[a](b " * 30_000, "[" * 200_000 + "](x)", "![a](b) " * 30_000 + "x"):
        list(sentences_of(Document(line, "markdown"), "line"))
    assert time.perf_counter() - began < 5


def test_emphasis_is_dropped():
    """As one expression would, which takes minutes for a line of many marks that nothing closes."""
    emphasis = re.compile(r"(?<!\w)([*_]{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)")
    dice = random.Random(0)
    for _ in range(20_000):
        line = "x " + "".join(dice.choices("**__ab 가\t.", k=dice.randint(0, 14)))
        expected = emphasis.sub(r"\2", line).strip()
        assert list(sentences_of(Document(line, "markdown"), "line")) == [expected]
    began = time.perf_counter()
    for marks in ("*a ", "_a ", "**a *b _c ", "[a](b "):
        line = marks * (100_000 // len(marks)) + "."
        assert list(sentences_of(Document(line, "markdown"), "line")) == [line.strip()]
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("text", ["a" + "," * 100_000 + "b", "a" + " " * 100_000 + "b"])
def test_a_long_line_of_wikipedia(text):
    pytest.importorskip("mwparserfromhell")
    from keras_bert.corpus.wikipedia import plain_text

    began = time.perf_counter()
    assert plain_text(text, ()) == " ".join(text.split())
    assert time.perf_counter() - began < 5


DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="ko">
<siteinfo><namespaces><namespace key="0"/><namespace key="6">파일</namespace><namespace key="14">분류</namespace>
</namespaces></siteinfo>
<page><title>서울</title><ns>0</ns><revision><text>{text}</text></revision></page>
<page><title>한양</title><ns>0</ns><redirect title="서울"/><revision><text>#넘겨주기 [[서울]]</text></revision></page>
<page><title>토론:서울</title><ns>1</ns><revision><text>토론이다.</text></revision></page>
<page><title>부산</title><ns>0</ns><revision><text>'''부산'''은 도시이다.</text></revision></page>
</mediawiki>"""
MARKUP = """{{Infobox|name=x
* not a list item of the page
}}'''서울'''(Seoul{{lang|ko}}, {{x}})은 [[대한민국|한국]]의 [[수도]]이다.<ref>a</ref> [[파일:a.jpg|thumb|a [[b]] c]]
== History ==
{| class="wikitable"
| cell
|}
* a list with a [[link]] {{t
|x}} and more
# numbered
: indented
; term: definition
It is old&nbsp;&amp; [http://x large] <math>x</math>town. [[Star Wars: A Film]] [[fr:Séoul]]
[[분류:도시]]
__NOTOC__ <!-- gone -->"""


def test_wikipedia(tmp_path):
    from xml.sax.saxutils import escape

    path = tmp_path / "dump.xml.bz2"
    path.write_bytes(bz2.compress(DUMP.format(text=escape(MARKUP)).encode()))
    seoul, busan = read_documents(path)
    assert list(sentences_of(busan)) == ["부산은 도시이다."]
    assert plain_text(seoul.text, seoul.namespaces).split("\n") == [
        "서울(Seoul)은 한국의 수도이다.",
        "It is old & large town. Star Wars: A Film",
    ]
    path.write_bytes(bz2.compress(DUMP.format(text="").encode()[:400]))
    with pytest.raises(ValueError, match=r"dump\.xml\.bz2 is not complete XML"):
        texts(path)
    with pytest.raises(ValueError, match=r"feed\.xml is XML, but not a Wikipedia dump.*root element <feed>"):
        texts(write(tmp_path, "feed.xml", "<feed><page/></feed>"))


@pytest.mark.parametrize("tag", ["page", "logitem"])
def test_a_dump_is_streamed(tmp_path, tag):
    page = f"<{tag}><ns>0</ns><revision><text>{'A town. ' * 500}</text></revision></{tag}>\n"
    path = tmp_path / "dump.xml"
    path.write_text("<mediawiki>" + page * 3000 + "</mediawiki>")  # 12 MB
    tracemalloc.start()
    assert sum(1 for _ in read_documents(path)) == (3000 if tag == "page" else 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6
